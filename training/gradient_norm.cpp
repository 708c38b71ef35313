#include "training/gradient_norm.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

namespace tutti::training {
namespace {

/// So many squares, each below 1, add up exactly in a double in units of 2^-40; in lanes, for the
/// compiler to compute them side by side.
constexpr std::size_t kExact = 4096, kLanes = 8;

/// Binary digits of a square that count in the high sum: `elements` of them fit 62 bits.
int digits_of(std::size_t elements) {
  return std::min(40, 62 - static_cast<int>(std::bit_width(elements)));
}

/// Added to a number that is far smaller and taken off again, it leaves the nearest multiple of
/// 2^-digits (the sum's last place).
double rounder(int digits) { return std::ldexp(1.5, 52 - digits); }

/// The power of two above a magnitude.
int exponent_of(float largest) { return std::ilogb(largest) + 1; }

/// At most kExact of them, times 2^(digits, 2 digits). Nothing is rounded but the last digits of
/// `low`: a float has 24 binary digits, and so its square fits a double.
Squares squares_of_few(std::span<const float> gradients, double scale, int digits) {
  const double high_rounder = rounder(digits), low_rounder = rounder(2 * digits);
  std::array<double, kLanes> high = {}, low = {};
  const auto add = [&](float gradient, std::size_t lane) {
    const double part = static_cast<double>(gradient) * scale;
    const double square = part * part;
    const double whole = (square + high_rounder) - high_rounder;
    high[lane] += whole;
    low[lane] += ((square - whole) + low_rounder) - low_rounder;
  };
  const std::size_t even = gradients.size() / kLanes * kLanes;
  for (std::size_t i = 0; i < even; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) add(gradients[i + lane], lane);
  for (std::size_t i = even; i < gradients.size(); ++i) add(gradients[i], i - even);
  const double all_high = std::accumulate(high.begin(), high.end(), 0.0),
               all_low = std::accumulate(low.begin(), low.end(), 0.0);
  return {static_cast<std::int64_t>(std::ldexp(all_high, digits)),
          static_cast<std::int64_t>(std::ldexp(all_low, 2 * digits))};
}

}  // namespace

float magnitude(std::span<const float> gradients) {
  // As integers, magnitudes order as they do, infinities and NaNs last.
  std::int32_t largest = 0;
  for (const float gradient : gradients)
    largest = std::max(largest, std::bit_cast<std::int32_t>(gradient) & 0x7fffffff);
  const float size = std::bit_cast<float>(largest);
  return std::isfinite(size) ? size : std::numeric_limits<float>::infinity();
}

Squares squares(std::span<const float> gradients, float largest, std::size_t elements) {
  Squares sum;
  if (!(largest > 0) || !std::isfinite(largest)) return sum;
  const int digits = digits_of(elements);
  const double scale = std::ldexp(1.0, -exponent_of(largest));
  for (std::size_t begin = 0; begin < gradients.size(); begin += kExact) {
    const Squares few = squares_of_few(
        gradients.subspan(begin, std::min(kExact, gradients.size() - begin)), scale, digits);
    sum.high += few.high;
    sum.low += few.low;
  }
  return sum;
}

double norm(const Squares& sum, float largest, std::size_t elements) {
  if (!std::isfinite(largest)) return std::numeric_limits<double>::quiet_NaN();
  const int digits = digits_of(elements);
  const double squares = std::ldexp(static_cast<double>(sum.high), -digits) +
                         std::ldexp(static_cast<double>(sum.low), -2 * digits);
  return largest == 0 ? 0 : std::ldexp(std::sqrt(squares), exponent_of(largest));
}

}  // namespace tutti::training
