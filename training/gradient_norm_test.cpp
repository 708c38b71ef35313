#include "training/gradient_norm.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tutti::training {
namespace {

/// Of all at once.
double norm_of(std::span<const float> gradients) {
  const float largest = magnitude(gradients);
  return norm(squares(gradients, largest, gradients.size()), largest, gradients.size());
}

/// Cut somewhere, as shards are.
double norm_in_parts(std::span<const float> gradients, std::size_t parts) {
  float largest = 0;
  Squares sum;
  const auto part = [&](std::size_t i) {
    const std::size_t begin = gradients.size() * i / parts;
    return gradients.subspan(begin, gradients.size() * (i + 1) / parts - begin);
  };
  for (std::size_t i = 0; i < parts; ++i) largest = std::max(largest, magnitude(part(i)));
  for (std::size_t i = parts; i > 0; --i) {
    const Squares own = squares(part(i - 1), largest, gradients.size());
    sum.high += own.high;
    sum.low += own.low;
  }
  return norm(sum, largest, gradients.size());
}

/// Of all magnitudes that occur.
std::vector<float> gradients_of(std::size_t count, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<float> gradients(count);
  for (float& gradient : gradients)
    gradient = std::ldexp(normal(random), -static_cast<int>(random() % 60));
  return gradients;
}

TEST(GradientNorm, IsThatOfALongSum) {
  std::mt19937_64 random(7);
  for (const std::size_t count : {1U, 5U, 1000U, 100'000U}) {
    const std::vector<float> gradients = gradients_of(count, random);
    long double sum = 0;
    for (const float gradient : gradients) sum += static_cast<long double>(gradient) * gradient;
    const auto exact = static_cast<double>(std::sqrt(sum));
    EXPECT_NEAR(norm_of(gradients), exact, exact * 1e-12) << count;
  }
}

TEST(GradientNorm, HasTheSameBitsHoweverItIsCut) {
  const std::uint64_t seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 50; ++round) {
    const std::vector<float> gradients = gradients_of(1 + random() % 5000, random);
    for (const std::size_t parts : {2U, 3U, 8U, 64U})
      ASSERT_EQ(norm_in_parts(gradients, parts), norm_of(gradients)) << "seed " << seed;
  }
}

TEST(GradientNorm, SeesTheSmallBesideTheLarge) {
  std::vector<float> gradients(1 << 20, 1e-6F);
  gradients[3] = 1;
  EXPECT_NEAR(norm_of(gradients), std::sqrt(1 + (1 << 20) * 1e-12), 1e-12);
}

TEST(GradientNorm, IsZeroOfNothingAndNoNumberOfWhatIsNone) {
  EXPECT_EQ(norm_of({}), 0);
  EXPECT_EQ(norm_of(std::vector<float>{0, -0.0F}), 0);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinite = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(norm_of(std::vector<float>{1, nan, 2})));
  EXPECT_TRUE(std::isnan(norm_of(std::vector<float>{1, -infinite})));
}

TEST(GradientNorm, TakesTheLargestAndTheSmallestFloats) {
  constexpr float kMost = std::numeric_limits<float>::max();
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(norm_of(std::vector<float>{kMost}), static_cast<double>(kMost));
  EXPECT_EQ(norm_of(std::vector<float>{kLeast, 0}), static_cast<double>(kLeast));
}

}  // namespace
}  // namespace tutti::training
