#include "tools/train/step_time.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/train/settings.hpp"

namespace tutti::trainer {
namespace {

using testing::HasSubstr;

training::Plan plan_for(const Options& options, int ranks) {
  const auto settings = settings_of(options, ranks);
  EXPECT_TRUE(settings) << settings.error().what;
  auto plan = plan_of(*settings, ranks);
  EXPECT_TRUE(plan) << plan.error().what;
  return *std::move(plan);
}

TEST(Link, IsARateAsTcWritesIt) {
  EXPECT_EQ(*parse_link("100mbit"), 12.5e6);
  EXPECT_EQ(*parse_link("2.5gbit"), 312.5e6);
  EXPECT_EQ(*parse_link("64kbit"), 8e3);
  for (const char* const text :
       {"", "100", "mbit", "-1mbit", "0gbit", "nanmbit", "1e99gbit", "1mbps"})
    EXPECT_THAT(parse_link(text).error().what, HasSubstr("100mbit or 1gbit")) << text;
}

// What crosses a link takes as long as its bytes; computing hides it, or the other way round.
TEST(StepSeconds, AreThoseOfTheLinkOrOfComputing) {
  for (const char* const strategy : {"ddp", "zero1", "zero2", "zero3"}) {
    for (const int passes : {1, 3}) {
      const training::Plan plan = plan_for({.strategy = strategy, .accumulate = passes}, 4);
      constexpr double kRate = 1e7;
      const double link = 2 * static_cast<double>(plan.traffic(2).other_hosts) / kRate;
      EXPECT_NEAR(step_seconds(plan, 2, kRate, 0), link, 1e-6 * link) << strategy << passes;
      for (const double compute : {0.1 * link, link, 10 * link}) {
        const double step = step_seconds(plan, 2, kRate, compute);
        EXPECT_GE(step, std::max(link, compute)) << strategy << passes;
        EXPECT_LE(step, (link + compute) * (1 + 1e-9)) << strategy << passes;
      }
      EXPECT_NEAR(step_seconds(plan, 1, kRate, 2), 2, 1e-6) << "nothing crosses a link";
    }
  }
}

TEST(StepSeconds, HideGradientsBehindTheBackwardPass) {
  const training::Plan plan = plan_for({.strategy = "ddp", .bucket_mb = 0.1}, 2);
  constexpr double kRate = 1e7;
  const double link = static_cast<double>(plan.traffic(2).other_hosts) / kRate;
  EXPECT_LT(step_seconds(plan, 2, kRate, 3 * link), 3.3 * link);
}

}  // namespace
}  // namespace tutti::trainer
