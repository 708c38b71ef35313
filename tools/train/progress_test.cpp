#include "tools/train/progress.hpp"

#include <bit>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::trainer {
namespace {

using testing::HasSubstr;

Progress example() {
  Progress progress{.step = 9,
                    .taken = 8,
                    .samples = 288,
                    .seed = 5,
                    .data = 77,
                    .seconds = 1.25,
                    .warmup_progress = 0.1,
                    .scaler = {.scale = 512, .good_steps = 3},
                    .shape = {.layers = 2, .heads = 2, .width = 8, .context = 16}};
  progress.average.add(1.0 / 3);
  return progress;
}

TEST(Progress, ComesBackFromItsCountersBitForBit) {
  const auto back = progress_in(9, counters_of(example()));
  ASSERT_TRUE(back) << back.error().what;
  EXPECT_EQ(counters_of(*back), counters_of(example()));
  EXPECT_EQ(back->average, example().average);
  EXPECT_EQ(back->shape, example().shape);
  EXPECT_EQ(back->step, 9U);
}

TEST(Progress, CountsTokensForThoseWhoLook) {
  EXPECT_EQ(counters_of(example())["tokens"], 288U * 16U);
}

TEST(Progress, NamesTheCounterThatIsMissingOrMakesNoSense) {
  auto counters = counters_of(example());
  for (const char* name : {"taken", "samples", "seed", "data", "seconds_bits", "loss_scale_bits"}) {
    auto without = counters;
    without.erase(name);
    EXPECT_THAT(progress_in(9, without).error().what, HasSubstr(name));
  }
  counters["seconds_bits"] = std::bit_cast<std::uint64_t>(std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(progress_in(9, counters).error().what, HasSubstr("seconds_bits"));
  counters = counters_of(example());
  counters["loss_scale_bits"] = std::bit_cast<std::uint64_t>(1e300);
  EXPECT_THAT(progress_in(9, counters).error().what, HasSubstr("loss scale 1e+300"));
}

TEST(Progress, KeepsNoLossScaleThatDoesNotGrow) {
  Progress progress = example();
  progress.scaler = {.scale = 1, .growth_interval = 0};
  EXPECT_EQ(progress_in(9, counters_of(progress))->scaler.scale, 0);
}

}  // namespace
}  // namespace tutti::trainer
