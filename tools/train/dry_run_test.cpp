#include "tools/train/dry_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tutti::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

nlohmann::json predicted(const Options& options, int ranks) {
  const auto settings = settings_of(options, ranks);
  EXPECT_TRUE(settings) << settings.error().what;
  const auto plan = plan_of(*settings, ranks);
  EXPECT_TRUE(plan) << plan.error().what;
  return nlohmann::json::parse(prediction_json(*settings, *plan), nullptr, false);
}

TEST(Prediction, OfOneRankSendsNothingAndHasFourFloatsAParameter) {
  const auto json = predicted({}, 1);
  const auto parameters = json["parameters"].get<std::uint64_t>();
  EXPECT_EQ(json["sent_per_step"]["all"], 0);
  const auto bytes = json["memory"]["all"].get<std::uint64_t>();
  EXPECT_GE(bytes, 16 * parameters);
  EXPECT_LT(bytes, 16 * parameters + 64 * 100) << "padding of a few buckets";
}

TEST(Prediction, OfStageOneHasMomentsInShards) {
  const auto whole = predicted({.strategy = "ddp"}, 4);
  const auto sharded = predicted({.strategy = "zero1"}, 4);
  EXPECT_NEAR(whole["memory"]["moments"].get<double>(),
              4 * sharded["memory"]["moments"].get<double>(), 4096);
  EXPECT_EQ(sharded["shards"], 4);
}

TEST(Prediction, SaysWhatItCounts) {
  const auto settings = settings_of({.strategy = "zero3"}, 2);
  const auto plan = plan_of(*settings, 2);
  ASSERT_TRUE(plan) << plan.error().what;
  EXPECT_THAT(prediction_text(*settings, *plan),
              AllOf(HasSubstr("5 layers, 4 heads, width 128, context 128"),
                    HasSubstr("2 ranks: 1 replica of 2 shards; 1 pass a step"),
                    HasSubstr("windows"), HasSubstr("gathers"), HasSubstr("Not counted")));
}

}  // namespace
}  // namespace tutti::trainer
