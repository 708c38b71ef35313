#include "training/learning_rate.hpp"

#include <gtest/gtest.h>

namespace tutti::training {
namespace {

TEST(LearningRate, GrowsLinearlyInTheWarmUpAndReachesThePeakAtItsEnd) {
  const LearningRate rate{.peak = 0.8, .least = 0.1, .warmup = 4};
  EXPECT_DOUBLE_EQ(rate.at(1, 0.01), 0.2);
  EXPECT_DOUBLE_EQ(rate.at(2, 0.02), 0.4);
  EXPECT_DOUBLE_EQ(rate.at(4, 0.04), 0.8);
}

TEST(LearningRate, FollowsACosineFromThePeakToTheLeast) {
  const LearningRate rate{.peak = 1, .least = 0.2, .warmup = 0};
  EXPECT_DOUBLE_EQ(rate.at(1, 0), 1);
  EXPECT_DOUBLE_EQ(rate.at(50, 0.5), 0.6);
  EXPECT_DOUBLE_EQ(rate.at(100, 1), 0.2);
  EXPECT_NEAR(rate.at(25, 0.25), 0.2 + 0.8 * 0.853553390593, 1e-9);
}

TEST(LearningRate, BeginsTheCosineWhereTheWarmUpEnded) {
  const LearningRate rate{.peak = 1, .least = 0, .warmup = 20};
  EXPECT_DOUBLE_EQ(rate.at(21, 0.2, 0.2), 1);
  EXPECT_DOUBLE_EQ(rate.at(60, 0.6, 0.2), 0.5);
}

TEST(LearningRate, StaysAtTheLeastBeyondTheEnd) {
  const LearningRate rate{.peak = 1, .least = 0.25, .warmup = 2};
  EXPECT_DOUBLE_EQ(rate.at(101, 1.2, 0.02), 0.25);
  EXPECT_DOUBLE_EQ(rate.at(3, 1, 1), 0.25);
}

}  // namespace
}  // namespace tutti::training
