#include "training/gradient_norm.hpp"

#include <bit>
#include <cmath>
#include <limits>

namespace tutti::training {
namespace {

/// What the largest square becomes: `elements` of them fit 63 bits.
double unit_of(std::size_t elements) {
  return std::ldexp(1.0, 63 - static_cast<int>(std::bit_width(elements)));
}

}  // namespace

float magnitude(std::span<const float> gradients) {
  float largest = 0;
  bool all_finite = true;
  for (const float gradient : gradients) {
    const float size = std::fabs(gradient);
    all_finite = all_finite && std::isfinite(size);
    largest = size > largest ? size : largest;
  }
  return all_finite ? largest : std::numeric_limits<float>::infinity();
}

Squares squares(std::span<const float> gradients, float largest, std::size_t elements) {
  Squares sum;
  if (!(largest > 0) || !std::isfinite(largest)) return sum;
  const double unit = unit_of(elements);
  for (const float gradient : gradients) {
    const double part = static_cast<double>(gradient) / static_cast<double>(largest);
    const double square = part * part * unit;
    const double whole = std::floor(square);
    sum.high += static_cast<std::uint64_t>(whole);
    sum.low += static_cast<std::uint64_t>((square - whole) * unit);
  }
  return sum;
}

double norm(const Squares& sum, float largest, std::size_t elements) {
  if (!std::isfinite(largest)) return std::numeric_limits<double>::quiet_NaN();
  const double unit = unit_of(elements);
  const double squares =
      (static_cast<double>(sum.high) + static_cast<double>(sum.low) / unit) / unit;
  return std::sqrt(squares) * static_cast<double>(largest);
}

}  // namespace tutti::training
