#include "tools/bench/numbers.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace tutti::bench {
namespace {

/// A binary floating-point layout: sign, exponent, mantissa from the top bit down.
struct FloatLayout {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  ///< e4m3 uses the top exponent for numbers, and only its last code for NaN

  [[nodiscard]] int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  [[nodiscard]] int smallest_exponent() const { return 1 - bias(); }
  [[nodiscard]] int top_code() const { return (1 << exponent_bits) - 1; }
  [[nodiscard]] std::uint64_t mantissa_mask() const { return (1ULL << mantissa_bits) - 1; }
  [[nodiscard]] Bits sign_bit() const { return 1ULL << (exponent_bits + mantissa_bits); }
  [[nodiscard]] bool is_number(int exponent_code, std::uint64_t mantissa) const {
    if (exponent_code < top_code()) return true;
    return exponent_code == top_code() && !has_infinity && mantissa != mantissa_mask();
  }
};

FloatLayout layout_of(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return {5, 10, true};
    case DataType::kBfloat16:
      return {8, 7, true};
    case DataType::kFloat8e4m3:
      return {4, 3, false};
    case DataType::kFloat8e5m2:
      return {5, 2, true};
    case DataType::kFloat32:
      return {8, 23, true};
    default:
      return {11, 52, true};
  }
}

}  // namespace

bool is_float(DataType type) { return type >= DataType::kFloat16; }

bool is_signed(DataType type) {
  return is_float(type) || type == DataType::kInt8 || type == DataType::kInt32 ||
         type == DataType::kInt64;
}

int precision_of(DataType type) { return layout_of(type).mantissa_bits + 1; }

std::optional<Bits> encode(DataType type, double value) {
  const FloatLayout layout = layout_of(type);
  const Bits sign = std::signbit(value) ? layout.sign_bit() : 0;
  if (value == 0) return sign;
  if (!std::isfinite(value)) return std::nullopt;

  const double magnitude = std::fabs(value);
  const int exponent = std::max(std::ilogb(magnitude), layout.smallest_exponent());
  const double units = std::ldexp(magnitude, layout.mantissa_bits - exponent);
  if (units != std::floor(units)) return std::nullopt;
  const auto significand = static_cast<std::uint64_t>(units);
  const bool subnormal = significand <= layout.mantissa_mask();
  const int exponent_code = subnormal ? 0 : exponent + layout.bias();
  const std::uint64_t mantissa = significand & layout.mantissa_mask();
  if (!layout.is_number(exponent_code, mantissa)) return std::nullopt;
  return sign | (static_cast<Bits>(exponent_code) << layout.mantissa_bits) | mantissa;
}

double decode(DataType type, Bits bits) {
  const FloatLayout layout = layout_of(type);
  const double sign = (bits & layout.sign_bit()) != 0 ? -1 : 1;
  const int exponent_code =
      static_cast<int>((bits & (layout.sign_bit() - 1)) >> layout.mantissa_bits);
  const std::uint64_t mantissa = bits & layout.mantissa_mask();
  if (!layout.is_number(exponent_code, mantissa)) {
    const bool infinite = layout.has_infinity && mantissa == 0;
    return infinite ? sign * std::numeric_limits<double>::infinity()
                    : std::numeric_limits<double>::quiet_NaN();
  }
  const bool subnormal = exponent_code == 0;
  const std::uint64_t significand =
      subnormal ? mantissa : mantissa | (1ULL << layout.mantissa_bits);
  const int exponent = subnormal ? layout.smallest_exponent() : exponent_code - layout.bias();
  return sign * std::ldexp(static_cast<double>(significand), exponent - layout.mantissa_bits);
}

Bits wrap(DataType type, std::uint64_t value) {
  const int bits = static_cast<int>(8 * size_of(type));
  return bits == 64 ? value : value & ((1ULL << bits) - 1);
}

std::int64_t extend(DataType type, Bits bits) {
  const int unused = 64 - static_cast<int>(8 * size_of(type));
  const auto shifted = static_cast<std::int64_t>(bits << unused);
  return is_signed(type) ? shifted >> unused : static_cast<std::int64_t>(bits);
}

std::string element_text(DataType type, Bits bits) {
  if (is_float(type)) return fmt::format("{}", decode(type, bits));
  if (is_signed(type)) return fmt::format("{}", extend(type, bits));
  return fmt::format("{}", bits);
}

}  // namespace tutti::bench
