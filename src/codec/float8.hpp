// e4m3 and e5m2: a block is a scale and a float of 8 bits for each value. The scale makes the
// block's largest value the format's largest one, so no value is too large.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/device_macros.hpp"
#include "src/codec/elements.hpp"
#include "src/codec/packing.hpp"
#include "src/codec/rounding.hpp"
#include "src/codec/scale.hpp"

namespace tutti::codec {

/// The largest finite value: in e4m3 448, in e5m2 57,344.
template <class Narrow>
constexpr float largest_value() {
  return widen_finite<Narrow>(Narrow::kSpecial - 1);
}

template <class Narrow, class Scale>
struct Float8Block {
  TUTTI_DEVICE std::size_t bytes(std::size_t count) const { return Scale::kBytes + count; }

  template <bool kRandom>
  [[gnu::always_inline]] TUTTI_DEVICE void encode(const float* in, std::size_t count,
                                                  const Rounding& rounding, std::byte* out) const {
    constexpr float kMost = largest_value<Narrow>();
    const std::uint32_t largest = largest_magnitude(in, count);
    const bool finite = largest < kInfinityBits;
    const float inverse =
        reciprocal(Scale::store(finite ? float_of(largest) : float_of(kNanBits), kMost, out));
    const auto first = static_cast<std::uint32_t>(rounding.first);
    std::byte* const codes = out + Scale::kBytes;
    for (std::size_t i = 0; i < count; ++i) {
      const float scaled = clamp((finite ? in[i] : 0.0F) * inverse, -kMost, kMost);
      const std::uint32_t random =
          kRandom ? random_bits(rounding.key, first + static_cast<std::uint32_t>(i)) : 0;
      codes[i] = static_cast<std::byte>(narrow_finite<Narrow, kRandom>(scaled, random));
    }
  }

  [[gnu::always_inline]] TUTTI_DEVICE bool decode(const std::byte* in, std::size_t count,
                                                  float* out) const {
    const float scale = Scale::load(in);
    const std::byte* const codes = in + Scale::kBytes;
    for (std::size_t i = 0; i < count; ++i)
      out[i] = widen_finite<Narrow>(static_cast<std::uint32_t>(codes[i])) * scale;
    return true;
  }
};

}  // namespace tutti::codec
