// int8 and int4: a block is a scale and an integer for each value; with an offset ("a",
// asymmetric), the least value too, from which the integers count. bfp16 and bfp8 (block floating
// point): a scale that is a power of two, so that integers of several blocks can be added if their
// scales are made equal.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "src/base/device_macros.hpp"
#include "src/codec/elements.hpp"
#include "src/codec/packing.hpp"
#include "src/codec/rounding.hpp"
#include "src/codec/scale.hpp"

namespace tutti::codec {

/// Codes of `kBits` bits: 4, 8 or 16.
template <int kBits, class CodeOf>
[[gnu::always_inline]] TUTTI_DEVICE inline void pack_integers(std::size_t count, std::byte* out,
                                                              const CodeOf& code_of) {
  if constexpr (kBits == 4) {
    pack_in_fours(count, out, code_of);
  } else if constexpr (kBits == 16) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto code = static_cast<std::uint16_t>(code_of(i));
      std::memcpy(out + i * sizeof code, &code, sizeof code);
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::byte>(code_of(i));
  }
}
template <int kBits, class ValueOf>
[[gnu::always_inline]] TUTTI_DEVICE inline void unpack_integers(const std::byte* in,
                                                                std::size_t count, float* out,
                                                                const ValueOf& value_of) {
  if constexpr (kBits == 4) {
    unpack_fours(in, count, out, value_of);
  } else if constexpr (kBits == 16) {
    for (std::size_t i = 0; i < count; ++i) {
      std::uint16_t code;
      std::memcpy(&code, in + i * sizeof code, sizeof code);
      out[i] = value_of(code);
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) out[i] = value_of(static_cast<std::uint32_t>(in[i]));
  }
}

struct Ends {
  float least = 0, most = 0;
};

/// An integer that orders like the finite float with these bits, and back.
constexpr std::int32_t ordered(std::int32_t bits) { return bits ^ ((bits >> 31) & 0x7fffffff); }

[[gnu::always_inline]] TUTTI_DEVICE inline Ends ends_of(const float* in, std::size_t count) {
  std::int32_t least = INT32_MAX, most = INT32_MIN;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t key = ordered(std::bit_cast<std::int32_t>(in[i]));
    least = key < least ? key : least;
    most = key > most ? key : most;
  }
  return {std::bit_cast<float>(ordered(least)), std::bit_cast<float>(ordered(most))};
}

template <int kBits, bool kOffset, class Scale>
struct IntegerBlock {
  static constexpr std::int32_t kMost = kOffset ? (1 << kBits) - 1 : (1 << (kBits - 1)) - 1;
  static constexpr int kRandomBits = kMost < 128 ? 16 : kMost < 256 ? 15 : 8;
  static constexpr std::size_t kHeader = (kOffset ? 2 : 1) * Scale::kBytes;

  TUTTI_DEVICE std::size_t bytes(std::size_t count) const {
    return kHeader + (count * kBits + 7) / 8;
  }

  template <bool kRandom>
  [[gnu::always_inline]] TUTTI_DEVICE void encode(const float* in, std::size_t count,
                                                  const Rounding& rounding, std::byte* out) const {
    const std::uint32_t largest = largest_magnitude(in, count);
    const bool finite = largest < kInfinityBits;
    float from = 0, range = finite ? float_of(largest) : float_of(kNanBits);
    if constexpr (kOffset) {
      const Ends ends = finite ? ends_of(in, count) : Ends{};
      from = Scale::store_below(ends.least, out + Scale::kBytes);
      if (finite) range = ends.most - from;
    }
    const float inverse = reciprocal(Scale::store(range, kMost, out));
    const bool usable = inverse > 0;  // else NaN could come about, whose bits are the processor's
    constexpr float kEnd = kMost;
    const auto first = static_cast<std::uint32_t>(rounding.first);
    pack_integers<kBits>(count, out + kHeader, [&](std::size_t i) TUTTI_INLINED {
      const float value = usable ? in[i] : from;
      const float scaled = clamp((value - from) * inverse, kOffset ? 0.0F : -kEnd, kEnd);
      const float shift = kRandom ? random_shift<kRandomBits>(random_bits(
                                        rounding.key, first + static_cast<std::uint32_t>(i)))
                                  : 0.0F;
      constexpr std::uint32_t kMask = (1u << kBits) - 1;
      return static_cast<std::uint32_t>(nearest_integer(scaled + shift)) & kMask;
    });
  }

  [[gnu::always_inline]] TUTTI_DEVICE bool decode(const std::byte* in, std::size_t count,
                                                  float* out) const {
    const float scale = Scale::load(in);
    float from = 0;
    if constexpr (kOffset) from = Scale::load(in + Scale::kBytes);
    unpack_integers<kBits>(in + kHeader, count, out, [&](std::uint32_t code) TUTTI_INLINED {
      constexpr std::int32_t kSign = kOffset ? 0 : 1 << (kBits - 1);
      const std::int32_t integer = (static_cast<std::int32_t>(code) ^ kSign) - kSign;
      return from + static_cast<float>(integer) * scale;
    });
    return true;
  }
};

}  // namespace tutti::codec
