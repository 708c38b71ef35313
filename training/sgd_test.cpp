#include "training/sgd.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace tutti::training {
namespace {

TEST(SgdStep, FollowsTheAlgorithm) {
  const Sgd options{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01};
  std::vector<float> parameters = {1, -2}, velocity = {0, 0};
  const std::vector<float> gradients = {4, -6};
  double expected = 1, speed = 0;
  for (int step = 0; step < 10; ++step) {
    sgd_step(options, 0.5F, true, gradients, parameters, velocity);
    speed = 0.9 * speed + 2 + 0.01 * expected;
    expected -= 0.1 * speed;
    EXPECT_NEAR(parameters[0], expected, 1e-5);
  }
}

TEST(SgdStep, NeedsNoStateWithoutMomentumAndNoDecayWhereNoneApplies) {
  const Sgd options{.learning_rate = 0.5, .weight_decay = 0.1};
  std::vector<float> parameters = {2};
  sgd_step(options, 1, false, std::vector<float>{1}, parameters, {});
  EXPECT_FLOAT_EQ(parameters[0], 1.5F);
  sgd_step(options, 1, true, std::vector<float>{1}, parameters, {});
  EXPECT_FLOAT_EQ(parameters[0], 1.5F - 0.5F * (1 + 0.15F));
}

}  // namespace
}  // namespace tutti::training
