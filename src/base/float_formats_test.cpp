#include "src/base/float_formats.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace tutti {
namespace {

/// The value of a code by the definition of the format, in double precision.
template <class Format>
double value_of(std::uint32_t code) {
  const std::uint32_t magnitude = code & (Format::kSign - 1);
  const double sign = (code & Format::kSign) != 0 ? -1.0 : 1.0;
  const int exponent = static_cast<int>(magnitude >> Format::kMantissaBits);
  const int mantissa = static_cast<int>(magnitude & ((1u << Format::kMantissaBits) - 1));
  const int top = (1 << Format::kExponentBits) - 1;
  const int all_ones = (1 << Format::kMantissaBits) - 1;
  if (Format::kHasInfinity && exponent == top) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (!Format::kHasInfinity && exponent == top && mantissa == all_ones) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const int implicit = exponent == 0 ? 0 : 1 << Format::kMantissaBits;
  const int scale = (exponent == 0 ? 1 : exponent) - Format::kBias - Format::kMantissaBits;
  return sign * std::ldexp(implicit + mantissa, scale);
}

/// The nearest code by search: finite codes are ordered, and the one after the largest finite
/// stands for where infinity would be if the exponents went on.
template <class Format>
std::uint32_t nearest_code(float value) {
  const std::uint32_t sign = std::signbit(value) ? Format::kSign : 0;
  if (std::isnan(value)) return sign | Format::kNan;
  const double magnitude = std::fabs(static_cast<double>(value));
  const std::uint32_t largest = Format::kSpecial - 1;
  const double next_step = value_of<Format>(largest) - value_of<Format>(largest - 1);
  std::uint32_t low = 0;  // the largest code whose value is <= magnitude
  for (std::uint32_t bit = Format::kSign >> 1; bit != 0; bit >>= 1) {
    if (low + bit <= largest && value_of<Format>(low + bit) <= magnitude) low += bit;
  }
  const double below = value_of<Format>(low);
  const double above = low == largest ? below + next_step : value_of<Format>(low + 1);
  const double middle = (below + above) / 2;
  const bool up = magnitude > middle || (magnitude == middle && (low & 1) != 0);
  std::uint32_t code = up ? low + 1 : low;
  if (code > largest) code = Format::kHasInfinity ? Format::kSpecial : largest;
  return sign | code;
}

template <class Format>
class FloatFormats : public testing::Test {};
using AllFormats = testing::Types<Float16, Bfloat16, Float8e4m3, Float8e5m2>;
TYPED_TEST_SUITE(FloatFormats, AllFormats);

TYPED_TEST(FloatFormats, EveryCodeWidensToItsValueAndBack) {
  using Format = TypeParam;
  for (std::uint32_t code = 0; code < 2 * Format::kSign; ++code) {
    const auto bits = static_cast<typename Format::Bits>(code);
    const float wide = widen<Format>(bits);
    const double expected = value_of<Format>(code);
    ASSERT_EQ(std::signbit(wide), (code & Format::kSign) != 0) << code;
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide)) << code;
      ASSERT_TRUE(std::isnan(value_of<Format>(narrow<Format>(wide)))) << code;
    } else {
      ASSERT_EQ(static_cast<double>(wide), expected) << code;
      ASSERT_EQ(narrow<Format>(wide), bits) << code;
    }
  }
}

TYPED_TEST(FloatFormats, TiesAndTheirNeighboursRoundToNearestEven) {
  using Format = TypeParam;
  for (std::uint32_t code = 0; code < 2 * Format::kSign; ++code) {
    const double value = value_of<Format>(code);
    if (!std::isfinite(value)) continue;
    const std::uint32_t magnitude = code & (Format::kSign - 1);
    const std::uint32_t below = magnitude == 0 ? 1 : magnitude - 1;
    const double step = std::fabs(std::fabs(value) - std::fabs(value_of<Format>(below)));
    for (const double middle : {value - step / 2, value + step / 2}) {
      const auto tie = static_cast<float>(middle);
      for (const float x : {tie, std::nextafterf(tie, -INFINITY), std::nextafterf(tie, INFINITY)}) {
        ASSERT_EQ(narrow<Format>(x), nearest_code<Format>(x)) << code << " " << x;
      }
    }
  }
}

TYPED_TEST(FloatFormats, RandomFloatsRoundToNearestEven) {
  using Format = TypeParam;
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> exponent(-170, 130);
  std::uniform_real_distribution<double> mantissa(-2.0, 2.0);
  for (int i = 0; i < 300'000; ++i) {
    // Half of them any bit pattern, half spread over the exponents these formats have.
    const float x =
        i % 2 == 0
            ? std::bit_cast<float>(static_cast<std::uint32_t>(random()))
            : static_cast<float>(std::ldexp(mantissa(random), exponent(random) / (1 + i % 16)));
    ASSERT_EQ(narrow<Format>(x), nearest_code<Format>(x)) << x;
  }
}

TEST(Float8e4m3, SaturatesInsteadOfOverflowing) {
  EXPECT_EQ(narrow<Float8e4m3>(448.0F), 0x7e);
  EXPECT_EQ(narrow<Float8e4m3>(1e30F), 0x7e);
  EXPECT_EQ(narrow<Float8e4m3>(-INFINITY), 0xfe);
  EXPECT_EQ(narrow<Float8e4m3>(NAN), 0x7f);
}

TEST(Float8e5m2, OverflowsToInfinity) {
  EXPECT_EQ(narrow<Float8e5m2>(57344.0F), 0x7b);
  EXPECT_EQ(narrow<Float8e5m2>(61439.0F), 0x7b);
  EXPECT_EQ(narrow<Float8e5m2>(61440.0F), 0x7c);
  EXPECT_EQ(narrow<Float8e5m2>(-INFINITY), 0xfc);
}

}  // namespace
}  // namespace tutti
