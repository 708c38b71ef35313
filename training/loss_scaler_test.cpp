#include "training/loss_scaler.hpp"

#include <gtest/gtest.h>

namespace tutti::training {
namespace {

TEST(LossScaler, DoublesAfterSoManyGoodSteps) {
  LossScaler scaler{.scale = 8, .growth_interval = 3};
  scaler.update(false);
  scaler.update(false);
  EXPECT_EQ(scaler.scale, 8);
  scaler.update(false);
  EXPECT_EQ(scaler.scale, 16);
  EXPECT_EQ(scaler.good_steps, 0U);
}

TEST(LossScaler, HalvesAtASkippedStepAndCountsAnew) {
  LossScaler scaler{.scale = 8, .growth_interval = 2};
  scaler.update(false);
  scaler.update(true);
  EXPECT_EQ(scaler.scale, 4);
  scaler.update(false);
  EXPECT_EQ(scaler.scale, 4);
  scaler.update(false);
  EXPECT_EQ(scaler.scale, 8);
}

TEST(LossScaler, StaysWithinItsBounds) {
  LossScaler low{.scale = 1, .growth_interval = 1};
  low.update(true);
  EXPECT_EQ(low.scale, LossScaler::kLeast);
  LossScaler high{.scale = LossScaler::kMost, .growth_interval = 1};
  high.update(false);
  EXPECT_EQ(high.scale, LossScaler::kMost);
}

TEST(LossScaler, IsFixedWithoutAnInterval) {
  LossScaler scaler{.scale = 128, .growth_interval = 0};
  scaler.update(true);
  scaler.update(false);
  EXPECT_EQ(scaler.scale, 128);
}

}  // namespace
}  // namespace tutti::training
