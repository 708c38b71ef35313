#include "training/frozen_adam.hpp"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tutti::training {
namespace {

constexpr std::size_t kFrozenElements = 200;
constexpr int kWarmupSteps = 20, kAddingRanks = 3;

std::vector<float> frozen_noise(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(kFrozenElements);
  for (std::size_t i = 0; i < kFrozenElements; ++i)
    values[i] = normal(random) * std::pow(10.0F, static_cast<float>(i % 5) - 3);
  return values;
}

struct AdamState {
  std::vector<float> parameters = frozen_noise(1), first = std::vector<float>(kFrozenElements),
                     second = std::vector<float>(kFrozenElements);
  AdamWState moments() { return {first, second}; }
};

/// After warm-up steps of AdamW.
AdamState warmed_up(const AdamW& adamw) {
  AdamState state;
  for (int step = 1; step <= kWarmupSteps; ++step)
    adamw_step(adamw, step, 0.5F, true, frozen_noise(static_cast<unsigned>(100 + step)),
               state.parameters, state.moments());
  return state;
}

// What AdamW does with a variance that does not change, in double.
TEST(FrozenAdam, StepsAsAdamWWithTheVarianceOfTheWarmup) {
  const AdamW adamw{.learning_rate = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .weight_decay = 0.1};
  AdamState state = warmed_up(adamw);
  const AdamState frozen = state;
  std::vector<double> momentum(frozen.first.begin(), frozen.first.end()),
      expected(frozen.parameters.begin(), frozen.parameters.end());
  const FrozenAdam how{
      .adamw = adamw, .warmup_steps = kWarmupSteps, .ranks = kAddingRanks, .gradient_scale = 0.5F};
  for (int step = kWarmupSteps + 1; step < kWarmupSteps + 6; ++step) {
    std::vector<float> sums(kFrozenElements);
    std::vector<double> gradients(kFrozenElements);
    for (unsigned rank = 0; rank < kAddingRanks; ++rank) {
      std::vector<float> own = frozen_noise(1000U * static_cast<unsigned>(step) + rank);
      for (std::size_t i = 0; i < kFrozenElements; ++i) gradients[i] += own[i];
      frozen_prepare(how, state.moments(), own);
      for (std::size_t i = 0; i < kFrozenElements; ++i) sums[i] += own[i];
    }
    frozen_momentum(how, state.second, sums);
    frozen_step(how, step, 1, true, sums, state.parameters, state.moments());
    for (std::size_t i = 0; i < kFrozenElements; ++i) {
      momentum[i] = 0.9 * momentum[i] + 0.1 * 0.5 * gradients[i];
      const double root = std::sqrt(frozen.second[i] / (1 - std::pow(0.95, kWarmupSteps))) + 1e-8;
      expected[i] =
          expected[i] * (1 - 1e-2 * 0.1) - 1e-2 * momentum[i] / (1 - std::pow(0.9, step)) / root;
    }
  }
  EXPECT_EQ(state.second, frozen.second);
  for (std::size_t i = 0; i < kFrozenElements; ++i) {
    EXPECT_NEAR(state.parameters[i], expected[i], 1e-5 * (1 + std::fabs(expected[i])));
    EXPECT_NEAR(state.first[i], momentum[i], 5e-5 * (1e-3 + std::fabs(momentum[i])));
  }
}

TEST(FrozenAdam, ShortensTheStepAndNotTheMomentum) {
  const AdamW adamw{.learning_rate = 1e-2, .weight_decay = 0};
  AdamState whole = warmed_up(adamw), half = whole;
  const AdamState before = whole;
  const std::vector<float> momentum = frozen_noise(7);
  const FrozenAdam how{.adamw = adamw, .warmup_steps = kWarmupSteps};
  frozen_step(how, kWarmupSteps + 1, 1, false, momentum, whole.parameters, whole.moments());
  frozen_step(how, kWarmupSteps + 1, 0.5F, false, momentum, half.parameters, half.moments());
  EXPECT_EQ(half.first, whole.first);
  for (std::size_t i = 0; i < kFrozenElements; ++i)
    EXPECT_NEAR(before.parameters[i] - half.parameters[i],
                (before.parameters[i] - whole.parameters[i]) / 2,
                1e-5F * (1 + std::fabs(whole.parameters[i])));
}

TEST(FrozenAdam, GivesARankGradientsForItsOwnMomentum) {
  AdamState state = warmed_up(AdamW{});
  FrozenAdam how{
      .warmup_steps = kWarmupSteps, .ranks = 2, .own_momentum = 0.75F, .gradient_scale = 2};
  std::vector<float> zeros(kFrozenElements), ones(kFrozenElements, 1.0F);
  frozen_prepare(how, state.moments(), zeros);
  for (const float value : zeros) EXPECT_EQ(value, 0) << "the shared momentum is no part of it";
  frozen_prepare(how, state.moments(), ones);
  frozen_momentum(how, state.second, ones);
  for (const float value : ones) EXPECT_NEAR(value, 0.25 * 2, 1e-5);
}

}  // namespace
}  // namespace tutti::training
