#include "tools/train/dry_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tutti::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

nlohmann::json predicted(const Options& options, int ranks, const Where& where = {}) {
  const auto settings = settings_of(options, ranks);
  EXPECT_TRUE(settings) << settings.error().what;
  const auto plan = plan_of(*settings, ranks);
  EXPECT_TRUE(plan) << plan.error().what;
  return nlohmann::json::parse(*prediction_json(*settings, *plan, where), nullptr, false);
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
  EXPECT_THAT(*prediction_text(*settings, *plan),
              AllOf(HasSubstr("5 layers, 4 heads, width 128, context 128"),
                    HasSubstr("2 ranks: 1 replica of 2 shards; 1 pass a step"),
                    HasSubstr("windows"), HasSubstr("gathers"), HasSubstr("Not counted")));
}

TEST(Prediction, OfCompressionIsBesideWhatItWouldBeWithout) {
  const Options options{
      .strategy = "zero3", .hpz = 2, .quantize_weights = "int8", .quantize_gradients = "int4"};
  const Where where{.hosts = 2, .link = "100mbit", .compute = 0.01};
  const auto json = predicted(options, 4, where);
  const auto& sent = json["sent_per_step"];
  const auto& plain = json["sent_per_step_uncompressed"];
  EXPECT_LT(4 * sent["other_hosts"].get<double>(), plain["other_hosts"].get<double>());
  EXPECT_GT(sent["shared"].get<double>(), 0);
  EXPECT_LT(3 * json["seconds_per_step"].get<double>(),
            json["seconds_per_step_uncompressed"].get<double>());
  const auto settings = settings_of(options, 4);
  const auto plan = plan_of(*settings, 4);
  ASSERT_TRUE(plan);
  EXPECT_THAT(
      *prediction_text(*settings, *plan, where),
      AllOf(HasSubstr("UNCOMPRESSED"), HasSubstr("to other hosts"),
            HasSubstr("over links of 100mbit between 2 hosts"), HasSubstr("without compression")));
  EXPECT_FALSE(prediction_text(*settings, *plan, {.hosts = 2, .link = "fast"}));
}

}  // namespace
}  // namespace tutti::trainer
