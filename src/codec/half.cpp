// bf16 and fp16: each value by itself.
#include <cstring>

#include "src/codec/elements.hpp"
#include "src/codec/formats.hpp"

namespace tutti::codec {
namespace {

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
  std::size_t bytes(std::size_t count) const { return count * 2; }

  template <bool kRandom>
  [[gnu::always_inline]] void encode(const float* in, std::size_t count, const Rounding& rounding,
                                     std::byte* out) const {
    const auto first = static_cast<std::uint32_t>(rounding.first);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t random =
          kRandom ? random_bits(rounding.key, first + static_cast<std::uint32_t>(i)) : 0;
      const auto code = static_cast<std::uint16_t>(narrow_half<kRandom>(in[i], random, Narrow()));
      std::memcpy(out + i * 2, &code, 2);
    }
  }
  [[gnu::always_inline]] bool decode(const std::byte* in, std::size_t count, float* out) const {
    for (std::size_t i = 0; i < count; ++i) {
      std::uint16_t code;
      std::memcpy(&code, in + i * 2, 2);
      out[i] = widen_half(code, Narrow());
    }
    return true;
  }
};

/// Blocks keep nothing here, so their length matters to loops alone.
constexpr std::uint32_t kLoopBlock = 32;

}  // namespace

std::unique_ptr<const Format> half_format(Half half, Loops loops) {
  FormatTraits traits;
  traits.block = kLoopBlock;
  traits.bits = 16;
  if (half == Half::kBfloat16) {
    traits.name = "bf16";
    traits.error = 0x1p-8;
    traits.least = 0x1p-134;
    traits.largest = 3.3895313892515355e38;
    traits.specials =
        "NaN, infinity and the sign of zero are kept; magnitudes from 3.3962e38 on become infinity";
    return block_format(std::move(traits), HalfBlock<Bfloat16>(), loops);
  }
  traits.name = "fp16";
  traits.error = 0x1p-11;
  traits.least = 0x1p-25;
  traits.largest = 65504;
  traits.specials =
      "NaN, infinity and the sign of zero are kept; magnitudes from 65520 on become infinity";
  return block_format(std::move(traits), HalfBlock<Float16>(), loops);
}

}  // namespace tutti::codec
