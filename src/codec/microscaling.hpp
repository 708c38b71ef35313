// mxfp8, mxfp8e5m2, mxfp4, mxint8: blocks of 32 with a power of two as scale, in one byte (OCP
// Microscaling Formats, specification 1.0, 5.1 to 5.3 and 6.3). As there, the scale is the largest
// power of two in the block by the largest one of the elements. So values in the last part of that
// binade become the largest element.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/device_macros.hpp"
#include "src/codec/elements.hpp"
#include "src/codec/packing.hpp"
#include "src/codec/rounding.hpp"

namespace tutti::codec {

inline constexpr std::uint32_t kMicroBlock = 32;
inline constexpr std::uint32_t kNanScale = 0xff;

/// Elements that are floats.
template <class Narrow, int kLargestExponent>
struct FloatElement {
  static constexpr int kBits = 1 + Narrow::kExponentBits + Narrow::kMantissaBits;
  static constexpr int kExponent = kLargestExponent;  ///< of the largest element
  static constexpr float kMost =
      widen_finite<Narrow>(kBits == 4 ? Narrow::kSign - 1 : Narrow::kSpecial - 1);
  template <bool kRandom>
  static constexpr std::uint32_t encode(float value, std::uint32_t random) {
    return narrow_finite<Narrow, kRandom>(clamp(value, -kMost, kMost), random);
  }
  static constexpr float decode(std::uint32_t code) { return widen_finite<Narrow>(code); }
};

/// Integers of 8 bits that count 64ths.
struct IntegerElement {
  static constexpr int kBits = 8;
  static constexpr int kExponent = 0;
  template <bool kRandom>
  static constexpr std::uint32_t encode(float value, std::uint32_t random) {
    const float shift = kRandom ? random_shift(random) : 0.0F;
    return static_cast<std::uint32_t>(nearest_integer(clamp(value * 64, -127, 127) + shift)) & 0xff;
  }
  static constexpr float decode(std::uint32_t code) {
    return static_cast<float>((static_cast<std::int32_t>(code) ^ 128) - 128) * 0x1p-6F;
  }
};

template <class Element>
struct MicroBlock {
  TUTTI_DEVICE std::size_t bytes(std::size_t count) const {
    return 1 + (count * Element::kBits + 7) / 8;
  }

  /// Loops of a constant length are vectorised better.
  template <bool kRandom>
  [[gnu::always_inline]] TUTTI_DEVICE void encode(const float* in, std::size_t count,
                                                  const Rounding& rounding, std::byte* out) const {
    if (count == kMicroBlock)
      encode_some<kRandom>(in, kMicroBlock, rounding, out);
    else
      encode_some<kRandom>(in, count, rounding, out);
  }
  [[gnu::always_inline]] TUTTI_DEVICE bool decode(const std::byte* in, std::size_t count,
                                                  float* out) const {
    return count == kMicroBlock ? decode_some(in, kMicroBlock, out) : decode_some(in, count, out);
  }

 private:
  template <bool kRandom>
  [[gnu::always_inline]] TUTTI_DEVICE static void encode_some(const float* in, std::size_t count,
                                                              const Rounding& rounding,
                                                              std::byte* out) {
    const std::uint32_t largest = largest_magnitude(in, count);
    const bool finite = largest < kInfinityBits;
    const int wanted = static_cast<int>(largest >> 23) - Element::kExponent;
    const int scale = wanted > 1 ? wanted : 1;  // 2^(scale - 127), not a denormal number
    out[0] = static_cast<std::byte>(finite ? static_cast<std::uint32_t>(scale) : kNanScale);
    const float inverse = power_of_two(127 - scale);
    const auto first = static_cast<std::uint32_t>(rounding.first);
    const auto code_of = [&](std::size_t i) TUTTI_INLINED {
      const std::uint32_t random =
          kRandom ? random_bits(rounding.key, first + static_cast<std::uint32_t>(i)) : 0;
      return Element::template encode<kRandom>((finite ? in[i] : 0.0F) * inverse, random);
    };
    if constexpr (Element::kBits == 4) {
      pack_in_fours(count, out + 1, code_of);
    } else {
      for (std::size_t i = 0; i < count; ++i) out[1 + i] = static_cast<std::byte>(code_of(i));
    }
  }

  [[gnu::always_inline]] TUTTI_DEVICE static bool decode_some(const std::byte* in,
                                                              std::size_t count, float* out) {
    const auto exponent = static_cast<std::uint32_t>(in[0]);
    const float scale =
        exponent == kNanScale ? float_of(kNanBits) : power_of_two(static_cast<int>(exponent) - 127);
    const auto value_of = [&](std::uint32_t code)
                              TUTTI_INLINED { return Element::decode(code) * scale; };
    if constexpr (Element::kBits == 4) {
      unpack_fours(in + 1, count, out, value_of);
    } else {
      for (std::size_t i = 0; i < count; ++i)
        out[i] = value_of(static_cast<std::uint32_t>(in[1 + i]));
    }
    return true;
  }
};

}  // namespace tutti::codec
