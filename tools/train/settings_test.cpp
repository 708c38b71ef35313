#include "tools/train/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/train/model_shape.hpp"

namespace tutti::trainer {
namespace {

using testing::HasSubstr;
using training::AfterForward;
using training::Strategy;

void expect_refused(const Options& options, int ranks, const char* what) {
  const auto settings = settings_of(options, ranks);
  ASSERT_FALSE(settings) << what;
  EXPECT_EQ(settings.error().code, Code::kInvalidArgument);
  EXPECT_THAT(settings.error().what, HasSubstr(what));
}

TEST(Settings, TakeTheShapeOfTheSizeAndWhatIsSaidBesideIt) {
  const auto settings = settings_of({.size = "10m", .context = 64}, 2);
  ASSERT_TRUE(settings) << settings.error().what;
  EXPECT_EQ(settings->shape, (ModelShape{.layers = 6, .heads = 6, .width = 384, .context = 64}));
}

TEST(Settings, KnowFsdpAndHsdpAsStageThree) {
  EXPECT_EQ(settings_of({.strategy = "fsdp"}, 4)->plan.strategy, Strategy::kZero3);
  const auto hybrid = settings_of({.strategy = "hsdp", .shard_size = 2}, 4);
  EXPECT_EQ(hybrid->plan.strategy, Strategy::kZero3);
  EXPECT_EQ(hybrid->plan.shard_ranks, 2);
  expect_refused({.strategy = "hsdp"}, 4, "--shard-size");
}

TEST(Settings, SayWhatIsKeptBetweenThePasses) {
  EXPECT_EQ(settings_of({.strategy = "zero3"}, 2)->plan.after_forward, AfterForward::kShard);
  EXPECT_EQ(
      settings_of({.strategy = "zero3", .reshard_after_forward = "false"}, 2)->plan.after_forward,
      AfterForward::kKeep);
  EXPECT_EQ(settings_of({.strategy = "zero3", .hpz = 2}, 4)->plan.after_forward,
            AfterForward::kSecondary);
  expect_refused({.strategy = "zero3", .hpz = 2, .reshard_after_forward = "true"}, 4, "leave out");
  expect_refused({.strategy = "zero2", .hpz = 2}, 4, "--hpz is of zero3");
  expect_refused({.strategy = "ddp", .reshard_after_forward = "true"}, 4, "is of zero3");
}

TEST(Settings, RefuseOptionsThatAStrategyHasNoUseFor) {
  expect_refused({.strategy = "ddp", .shard_size = 2}, 4, "ddp has no shards");
  expect_refused({.strategy = "zero1", .whole_gradients = true}, 4, "keeps them whole anyway");
  expect_refused({.strategy = "ddp", .sharded_accumulation = true}, 4, "is of zero2 and zero3");
  expect_refused({.prefetch_mb = 1}, 2, "--prefetch-mb is of zero3, and not of ddp");
  expect_refused({.strategy = "zero3", .bucket_mb = 1}, 2, "sends its units as they are");
  expect_refused({.virtual_shards = 4}, 2, "--virtual-shards 4 is of --deterministic");
  expect_refused({.strategy = "zero2", .whole_gradients = true, .deterministic = true}, 2,
                 "the gradients of each pass are sent");
  expect_refused({.reduce_precision = "bf16", .deterministic = true}, 2, "sums are of fp32");
  expect_refused({.precision = "bf16", .loss_scale = "8"}, 2, "bf16 needs none");
  expect_refused({.precision = "fp16", .loss_scale = "much"}, 2, "'dynamic', or a number");
}

TEST(Settings, NameTheOptionByWhichRanksCannotBeGrouped) {
  expect_refused({.strategy = "zero3", .shard_size = 2}, 3, "--shard-size 2: 3 ranks");
  expect_refused({.strategy = "zero3", .hpz = 3}, 4, "--hpz 3: it has to divide the 4 ranks");
  expect_refused({.strategy = "zero3", .hpz = 2}, 2, "--hpz 2");
}

TEST(Settings, CutADeterministicBatchInVirtualShards) {
  for (const int ranks : {1, 2, 4, 8})
    EXPECT_EQ(settings_of({.deterministic = true}, ranks)->plan.passes, 8 / ranks);
  expect_refused({.deterministic = true}, 3, "8 virtual shards do not divide among 3 ranks");
  expect_refused({.deterministic = true}, 16, "or more --virtual-shards");
  expect_refused({.deterministic = true, .virtual_shards = 6}, 2, "a power of two");
  expect_refused({.accumulate = 2, .deterministic = true}, 2, "leave it out");
}

TEST(Settings, CountABatchInSamplesOrInTokens) {
  EXPECT_EQ(settings_of({.batch = 6}, 2)->batch, 6U);
  EXPECT_EQ(settings_of({.context = 64, .tokens_per_batch = 640}, 2)->batch, 10U);
  EXPECT_EQ(settings_of({.context = 64, .tokens_per_batch = 640}, 2)->tokens(), 640U);
  expect_refused({.context = 64, .tokens_per_batch = 100}, 2, "no multiple of --context 64; 128");
  expect_refused({.accumulate = 4, .batch = 7}, 2, "less than one for each of 4 passes of 2 ranks");
  EXPECT_EQ(settings_of({}, 40)->batch, 40U) << "a default that fits";
}

TEST(Settings, WarmUpForATwentiethOfTheRun) {
  EXPECT_EQ(settings_of({.steps = 200}, 1)->rate.warmup, 10U);
  EXPECT_EQ(settings_of({.steps = 100000}, 1)->rate.warmup, 100U);
  EXPECT_EQ(settings_of({.minutes = 5}, 1)->rate.warmup, 100U);
  EXPECT_EQ(settings_of({.minutes = 5}, 1)->steps, 0U);
  expect_refused({.steps = 10, .warmup = 11}, 1, "longer than the run of 10 steps");
  expect_refused({.lr = 1e-3, .min_lr = 1e-2}, 1, "above --lr");
}

TEST(Settings, ScaleTheLossOfFloat16Alone) {
  EXPECT_EQ(settings_of({}, 1)->scaler.scale, 1);
  EXPECT_GT(settings_of({.precision = "fp16"}, 1)->scaler.growth_interval, 0U);
  const auto fixed = settings_of({.precision = "fp16", .loss_scale = "128"}, 1);
  EXPECT_EQ(fixed->scaler.scale, 128);
  EXPECT_EQ(fixed->scaler.growth_interval, 0U);
}

TEST(ResumeOf, TakesAutoNeverOrAStep) {
  EXPECT_TRUE(resume_of({})->wanted);
  EXPECT_FALSE(resume_of({.resume = "never"})->wanted);
  EXPECT_EQ(resume_of({.resume = "50"})->step, 50U);
  EXPECT_THAT(resume_of({.resume = "5x"}).error().what, HasSubstr("'auto', 'never' or"));
}

TEST(RanksThatFit, AreAsManyAsShardsAndPartsOfABatchDivideAmong) {
  EXPECT_EQ(ranks_that_fit({}, 3), 3);
  EXPECT_EQ(ranks_that_fit({.deterministic = true}, 3), 2);
  EXPECT_EQ(ranks_that_fit({.deterministic = true}, 4), 4);
  EXPECT_EQ(ranks_that_fit({.strategy = "hsdp", .shard_size = 2}, 3), 2);
  EXPECT_EQ(ranks_that_fit({.strategy = "zero3", .hpz = 2}, 5), 4);
  EXPECT_EQ(ranks_that_fit({.strategy = "hsdp", .shard_size = 4}, 3), 0);
}

TEST(ModelShapes, HaveAboutTheParametersThatTheirNamesSay) {
  const auto elements = [](const char* size) {
    return static_cast<double>(parameters_of(shape_of_size(size))->elements());
  };
  EXPECT_NEAR(elements("1m"), 1e6, 0.1e6);
  EXPECT_NEAR(elements("3m"), 3e6, 0.3e6);
  EXPECT_NEAR(elements("10m"), 10e6, 1e6);
  EXPECT_NEAR(elements("124m"), 86e6, 1e6) << "GPT-2's, over bytes";
}

TEST(ModelShapes, PutEveryParameterInOneUnit) {
  const ModelShape shape{.layers = 11, .heads = 2, .width = 8, .context = 4};
  const auto table = parameters_of(shape);
  const auto units = units_of(*table, shape);
  ASSERT_EQ(units.size(), 12U);
  EXPECT_TRUE(units[0].keeps_whole);
  EXPECT_EQ(units[0].group.parameters.size(), 4U);
  for (std::size_t i = 1; i < units.size(); ++i) {
    EXPECT_EQ(units[i].group.parameters.size(), 12U) << units[i].group.name;
    EXPECT_FALSE(units[i].keeps_whole);
  }
}

TEST(ModelShapes, ComeBackFromCounters) {
  const ModelShape shape{.layers = 3, .heads = 2, .width = 8, .context = 4};
  std::map<std::string, std::uint64_t> counters;
  add_counters(shape, counters);
  EXPECT_EQ(shape_in(counters), shape);
  counters["heads"] = 3;
  EXPECT_EQ(shape_in(counters), std::nullopt) << "8 in 3 heads";
  counters.erase("heads");
  EXPECT_EQ(shape_in(counters), std::nullopt);
}

TEST(ModelShapes, AreRefusedWithTheOptionNamed) {
  EXPECT_THAT(check({.heads = 3, .width = 128}).error().what, HasSubstr("--width 128"));
  EXPECT_THAT(check({.layers = 0}).error().what, HasSubstr("--layers 0"));
}

TEST(SettingsOfCompression, NameWhatMeansNothing) {
  expect_refused({.quantize_weights = "int8"}, 2, "ddp gathers no parameters");
  expect_refused({.quantize_gradients = "int4"}, 2, "with ddp it is --compress");
  expect_refused({.strategy = "zero3", .compress = "int8"}, 2, "it is --quantize-gradients");
  expect_refused({.compress = "topk:2"}, 2, "above 0 and at most 1");
  expect_refused({.compress = "int5"}, 2, "format 'int5'");
  expect_refused({.compress = "int8", .deterministic = true}, 2, "depends on how ranks cut");
  expect_refused({.error_feedback = "on"}, 2, "gradients are not compressed");
  expect_refused({.compress_warmup = 5}, 2, "gradients are not compressed");
  expect_refused({.compress = "powersgd:2", .error_feedback = "off"}, 2, "does not work without");
  expect_refused({.compress = "int8", .compress_momentum = 0.5}, 2, "is of --compress topk");
  expect_refused({.compress = "onebit", .minutes = 1}, 2, "--compress-warmup");
  expect_refused({.compress = "powersgd:2", .precision = "fp16", .steps = 100}, 2,
                 "a dynamic loss scale");
}

TEST(SettingsOfCompression, BecomeThoseOfThePlan) {
  auto settings = settings_of(
      {.strategy = "zero3", .quantize_weights = "int8", .quantize_gradients = "int4"}, 2);
  ASSERT_TRUE(settings) << settings.error().what;
  EXPECT_EQ(settings->plan.weights, "int8");
  EXPECT_EQ(settings->plan.gradients.format, "int4");
  EXPECT_FALSE(settings->plan.gradients.owes());
  settings =
      settings_of({.quantize_weights = "none", .compress = "none", .deterministic = true}, 2);
  ASSERT_TRUE(settings) << settings.error().what;
  EXPECT_FALSE(settings->plan.gradients.is_on());
  settings = settings_of({.compress = "topk:0.01", .steps = 200, .beta1 = 0.8}, 2);
  ASSERT_TRUE(settings) << settings.error().what;
  EXPECT_FLOAT_EQ(settings->plan.gradients.momentum, 0.8F);
  EXPECT_EQ(settings->plan.gradients.warmup_steps, 30);
  settings = settings_of({.compress = "topk:0.01", .compress_momentum = 0.0}, 2);
  ASSERT_TRUE(settings) << settings.error().what;
  EXPECT_EQ(settings->plan.gradients.method, training::GradientCompression::Method::kFormat);
  EXPECT_TRUE(settings->plan.gradients.owes());
  settings = settings_of({.compress = "int8", .error_feedback = "on", .compress_warmup = 7}, 2);
  ASSERT_TRUE(settings) << settings.error().what;
  EXPECT_TRUE(settings->plan.gradients.owes());
  EXPECT_EQ(settings->plan.gradients.warmup_steps, 7);
}

TEST(SettingsOfCompression, KeepSecondaryShardsOnHosts) {
  Options options{.strategy = "zero3", .secondary = true};
  ASSERT_TRUE(choose_secondary(options, 4, 2));
  EXPECT_EQ(options.hpz, 2);
  const auto refused = [](Options asked, int ranks, int hosts) {
    const Status chosen = choose_secondary(asked, ranks, hosts);
    return chosen ? "" : chosen.error().what;
  };
  options = {.strategy = "zero3", .secondary = true};
  EXPECT_THAT(refused(options, 4, 1), HasSubstr("4 ranks are on one host"));
  EXPECT_THAT(refused(options, 4, 4), HasSubstr("at least 2"));
  EXPECT_THAT(refused(options, 4, 0), HasSubstr("unequal hosts"));
  options.hpz = 2;
  EXPECT_THAT(refused(options, 4, 2), HasSubstr("say the same"));
}

}  // namespace
}  // namespace tutti::trainer
