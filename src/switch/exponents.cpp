#include "src/switch/exponents.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "src/base/float_formats.hpp"

namespace tutti::in_network {
namespace {

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// How a type is kept in memory, and how a double becomes one, rounded once.
struct Float32Cells {
  using Bits = std::uint32_t;
  static float value(Bits bits) { return std::bit_cast<float>(bits); }
  static Bits bits(double value) { return std::bit_cast<Bits>(static_cast<float>(value)); }
};

/// `value` as a float32 that is rounded to odd: cut, with the last bit set if anything was cut off.
/// Such a float rounds to any type with two bits less as `value` itself does.
float rounded_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const double back = nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::fabs(back) > std::fabs(value)) bits -= 1;
  if (back != value) bits |= 1;
  return std::bit_cast<float>(bits);
}

template <class Format>
struct NarrowCells {
  using Bits = std::uint16_t;
  static float value(Bits bits) { return widen<Format>(bits); }
  static Bits bits(double value) { return narrow<Format>(rounded_to_odd(value)); }
};

template <class F>
decltype(auto) with_cells(DataType type, F&& f) {
  switch (type) {
    case DataType::kFloat16:
      return f(NarrowCells<Float16>{});
    case DataType::kBfloat16:
      return f(NarrowCells<Bfloat16>{});
    default:
      return f(Float32Cells{});
  }
}

/// Adding it to a double of less than 2^51 rounds that to an integer, ties to even, which is then
/// in the low bits. It is one addition, becomes vector code anywhere, and is defined for any value.
constexpr double kRounding = 0x1.8p52;

template <class F>
decltype(auto) with_integers(unsigned bits, F&& f) {
  if (bits == 8) return f(std::int8_t{});
  if (bits == 16) return f(std::int16_t{});
  return f(std::int32_t{});
}

unsigned fan(unsigned members) { return std::bit_ceil(members); }

/// Values of a block lie in arrays of their type, which compilers turn into vector code.
constexpr std::size_t kBlock = 64;

}  // namespace

Exponent exponent_of(DataType type, const std::byte* values, std::size_t count, const Fixed& fixed,
                     float factor) {
  const std::uint32_t greatest = with_cells(type, [&]<class Cells>(Cells) {
    std::uint32_t most = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const float value =
          Cells::value(load<typename Cells::Bits>(values + i * sizeof(typename Cells::Bits)));
      most = std::max(most, std::bit_cast<std::uint32_t>(value) & 0x7fffffff);
    }
    return most;
  });
  const double magnitude = std::fabs(double{std::bit_cast<float>(greatest)} * factor);
  if (!std::isfinite(magnitude)) return kNotFinite;
  if (magnitude == 0) return kAllZero;
  const int exponent = std::ilogb(magnitude) + 1;
  const double below_one = 1 - std::ldexp(fan(fixed.members), -static_cast<int>(fixed.bits));
  const int code = magnitude < std::ldexp(below_one, exponent) ? exponent : exponent + 1;
  if (code > kGreatestExponent) return kNotFinite;
  return static_cast<Exponent>(std::max<int>(code, kLeastExponent));
}

Scale scale_of(Exponent greatest, const Fixed& fixed) {
  return {.step = std::ldexp(fan(fixed.members), greatest - static_cast<int>(fixed.bits) + 1),
          .bits = fixed.bits};
}

void quantise(DataType type, const std::byte* values, std::size_t count, const Scale& scale,
              std::byte* out, float factor) {
  const double inverse = factor / scale.step;  // a power of two
  with_cells(type, [&]<class Cells>(Cells) {
    with_integers(scale.bits, [&]<class Integer>(Integer) {
      using Bits = typename Cells::Bits;
      for (std::size_t first = 0; first < count; first += kBlock) {
        const std::size_t block = std::min(kBlock, count - first);
        Integer integers[kBlock];
        for (std::size_t i = 0; i < block; ++i) {
          const float value = Cells::value(load<Bits>(values + (first + i) * sizeof(Bits)));
          const double rounded = static_cast<double>(value) * inverse + kRounding;
          integers[i] = static_cast<Integer>(std::bit_cast<std::uint64_t>(rounded));
        }
        std::memcpy(out + first * sizeof integers[0], integers, block * sizeof integers[0]);
      }
    });
  });
}

void dequantise(DataType type, std::span<const std::byte> sums, const Scale& scale,
                std::byte* out) {
  with_cells(type, [&]<class Cells>(Cells) {
    with_integers(scale.bits, [&]<class Integer>(Integer) {
      const std::size_t count = sums.size() / sizeof(Integer);
      for (std::size_t first = 0; first < count; first += kBlock) {
        const std::size_t block = std::min(kBlock, count - first);
        Integer integers[kBlock];
        typename Cells::Bits cells[kBlock];
        std::memcpy(integers, sums.data() + first * sizeof integers[0], block * sizeof integers[0]);
        for (std::size_t i = 0; i < block; ++i) cells[i] = Cells::bits(integers[i] * scale.step);
        std::memcpy(out + first * sizeof cells[0], cells, block * sizeof cells[0]);
      }
    });
  });
}

}  // namespace tutti::in_network
