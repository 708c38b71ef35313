#include "training/adamw.hpp"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tutti::training {
namespace {

/// Parameters with their gradients and moments.
struct Model {
  explicit Model(std::size_t size, std::uint64_t seed = 3)
      : parameters(size), gradients(size), first(size), second(size) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < size; ++i) {
      parameters[i] = normal(random);
      gradients[i] = normal(random);
    }
  }
  void step(std::int64_t number, std::size_t begin, std::size_t end, const AdamW& options = {}) {
    const std::size_t count = end - begin;
    adamw_step(options, number, 0.5F, true, std::span(gradients).subspan(begin, count),
               std::span(parameters).subspan(begin, count),
               {std::span(first).subspan(begin, count), std::span(second).subspan(begin, count)});
  }
  std::vector<float> parameters, gradients, first, second;
};

/// In double, as the paper says.
TEST(AdamWStep, FollowsTheAlgorithm) {
  Model model(100);
  std::vector<double> parameters(model.parameters.begin(), model.parameters.end());
  std::vector<double> first(100), second(100);
  const AdamW options{.learning_rate = 0.01, .weight_decay = 0.1};
  for (int step = 1; step <= 20; ++step) {
    model.step(step, 0, 100, options);
    for (std::size_t i = 0; i < 100; ++i) {
      const double gradient = 0.5 * static_cast<double>(model.gradients[i]);
      first[i] = 0.9 * first[i] + 0.1 * gradient;
      second[i] = 0.999 * second[i] + 0.001 * gradient * gradient;
      const double first_hat = first[i] / (1 - std::pow(0.9, step));
      const double second_hat = second[i] / (1 - std::pow(0.999, step));
      parameters[i] -= 0.01 * 0.1 * parameters[i];
      parameters[i] -= 0.01 * first_hat / (std::sqrt(second_hat) + 1e-8);
    }
  }
  for (std::size_t i = 0; i < 100; ++i) EXPECT_NEAR(model.parameters[i], parameters[i], 1e-5);
}

TEST(AdamWStep, HasTheSameBitsHoweverParametersAreCut) {
  Model whole(1000), parts(1000);
  for (int step = 1; step <= 5; ++step) {
    whole.step(step, 0, 1000);
    for (const auto& [begin, end] : {std::pair{0, 1}, {1, 18}, {18, 500}, {500, 1000}})
      parts.step(step, begin, end);
  }
  EXPECT_EQ(parts.parameters, whole.parameters);
  EXPECT_EQ(parts.first, whole.first);
  EXPECT_EQ(parts.second, whole.second);
}

TEST(AdamWStep, LetsOnlyParametersDecayThatDo) {
  std::vector<float> parameter = {2.0F}, gradient = {0.0F}, first = {0.0F}, second = {0.0F};
  const AdamW options{.learning_rate = 0.1, .weight_decay = 0.5};
  adamw_step(options, 1, 1.0F, false, gradient, parameter, {first, second});
  EXPECT_EQ(parameter[0], 2.0F);
  adamw_step(options, 2, 1.0F, true, gradient, parameter, {first, second});
  EXPECT_FLOAT_EQ(parameter[0], 1.9F);
}

}  // namespace
}  // namespace tutti::training
