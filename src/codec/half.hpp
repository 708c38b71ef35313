// bf16 and fp16: each value by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "src/base/device_macros.hpp"
#include "src/base/float_formats.hpp"
#include "src/codec/elements.hpp"
#include "src/codec/rounding.hpp"

namespace tutti::codec {

/// bfloat16 is the upper half of a float32.
template <bool kRandom>
constexpr std::uint32_t narrow_half(float value, std::uint32_t random, Bfloat16) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t up = kRandom ? random & 0xffffu : 0x7fffu + (bits >> 16 & 1);
  const std::uint32_t nan = (bits >> 16 & 0x8000u) | Bfloat16::kNan;
  return magnitude_of(value) > kInfinityBits ? nan : (bits + up) >> 16;
}
template <bool kRandom>
constexpr std::uint32_t narrow_half(float value, std::uint32_t random, Float16) {
  return narrow_any<Float16, kRandom>(value, random);
}
constexpr float widen_half(std::uint32_t code, Bfloat16) { return float_of(code << 16); }
constexpr float widen_half(std::uint32_t code, Float16) { return widen_any<Float16>(code); }

template <class Narrow>
struct HalfBlock {
  TUTTI_DEVICE std::size_t bytes(std::size_t count) const { return count * 2; }

  template <bool kRandom>
  [[gnu::always_inline]] TUTTI_DEVICE void encode(const float* in, std::size_t count,
                                                  const Rounding& rounding, std::byte* out) const {
    const auto first = static_cast<std::uint32_t>(rounding.first);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t random =
          kRandom ? random_bits(rounding.key, first + static_cast<std::uint32_t>(i)) : 0;
      const auto code = static_cast<std::uint16_t>(narrow_half<kRandom>(in[i], random, Narrow()));
      std::memcpy(out + i * 2, &code, 2);
    }
  }
  [[gnu::always_inline]] TUTTI_DEVICE bool decode(const std::byte* in, std::size_t count,
                                                  float* out) const {
    for (std::size_t i = 0; i < count; ++i) {
      std::uint16_t code;
      std::memcpy(&code, in + i * 2, 2);
      out[i] = widen_half(code, Narrow());
    }
    return true;
  }
};

}  // namespace tutti::codec
