#include "tools/train/reporter.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tools/train/dry_run.hpp"

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ReporterTest : public testing::Test {
 protected:
  ReporterTest() : folder_(testing::TempDir() + fmt::format("reporter_test.{}", ::getpid())) {
    fs::create_directories(folder_);
  }
  ~ReporterTest() override { fs::remove_all(folder_); }
  [[nodiscard]] StepLog log() const {
    std::stringstream text;
    text << std::ifstream(folder_ / "log.jsonl").rdbuf();
    const auto parsed = parse_log(text.str());
    EXPECT_TRUE(parsed) << parsed.error().what;
    return *parsed;
  }
  /// Writes one step.
  void run(std::uint64_t step, bool continues) const {
    auto reporter = Reporter::open(folder_, {.steps = 10}, 100, continues);
    ASSERT_TRUE(reporter) << reporter.error().what;
    EXPECT_TRUE(reporter->step({.step = step, .loss = 1}, std::nullopt));
  }
  fs::path folder_;
};

TEST_F(ReporterTest, BeginsANewLogUnlessTheRunGoesOn) {
  run(1, false);
  run(2, true);
  EXPECT_EQ(log().runs.size(), 2U);
  EXPECT_EQ(log().steps.size(), 2U);
  run(1, false);
  EXPECT_EQ(log().runs.size(), 1U);
  EXPECT_EQ(log().steps.size(), 1U);
}

TEST_F(ReporterTest, TakesALineAwayThatWasNotFinished) {
  run(1, false);
  std::ofstream(folder_ / "log.jsonl", std::ios::app) << "{\"step\":2," << std::string(10000, ' ');
  run(2, true);
  EXPECT_EQ(log().steps.size(), 2U);
}

TEST_F(ReporterTest, SaysWhereItCannotWrite) {
  const auto reporter = Reporter::open(folder_ / "none", {}, 1, false);
  ASSERT_FALSE(reporter);
  EXPECT_EQ(reporter.error().code, Code::kUnavailable);
  EXPECT_THAT(reporter.error().what, HasSubstr("none/log.jsonl"));
}

TEST(ComparisonText, HasWhatWasPredictedBesideWhatCame) {
  const auto settings = settings_of({.strategy = "zero1"}, 2);
  const auto plan = plan_of(*settings, 2);
  ASSERT_TRUE(plan);
  const std::string text = comparison_text(*plan, 2, {.moments = 123456789},
                                           {.gathers = 987654321, .other_hosts = 4242});
  EXPECT_THAT(text, HasSubstr("123456789"));
  EXPECT_THAT(text, HasSubstr("987654321"));
  EXPECT_THAT(text, HasSubstr(std::to_string(plan->traffic().reductions)));
  EXPECT_THAT(text, HasSubstr("of these to other hosts"));
  EXPECT_THAT(text, HasSubstr("4242"));
}

TEST(ResidentBytes, AreSome) { EXPECT_GT(resident_bytes(), 1U << 20U); }

}  // namespace
}  // namespace tutti::trainer
