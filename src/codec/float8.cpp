// e4m3 and e5m2: a block is a scale and a float of 8 bits for each value. The scale makes the
// block's largest value the format's largest one, so no value is too large.
#include <algorithm>
#include <cstring>

#include <fmt/core.h>

#include "src/codec/elements.hpp"
#include "src/codec/formats.hpp"
#include "src/codec/scale.hpp"

namespace tutti::codec {
namespace {

/// The largest finite value: in e4m3 448, in e5m2 57,344.
template <class Narrow>
constexpr float largest_value() {
  return widen_finite<Narrow>(Narrow::kSpecial - 1);
}

template <class Narrow, class Scale>
struct Float8Block {
  std::size_t bytes(std::size_t count) const { return Scale::kBytes + count; }

  template <bool kRandom>
  [[gnu::always_inline]] void encode(const float* in, std::size_t count, const Rounding& rounding,
                                     std::byte* out) const {
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

  [[gnu::always_inline]] bool decode(const std::byte* in, std::size_t count, float* out) const {
    const float scale = Scale::load(in);
    const std::byte* const codes = in + Scale::kBytes;
    for (std::size_t i = 0; i < count; ++i)
      out[i] = widen_finite<Narrow>(static_cast<std::uint32_t>(codes[i])) * scale;
    return true;
  }
};

template <class Narrow, class Scale>
std::unique_ptr<const Format> make_float8(const char* name, std::uint32_t block, Loops loops) {
  using Block = Float8Block<Narrow, Scale>;
  constexpr double kFloatError = 0x1p-22;
  FormatTraits traits;
  traits.name = fmt::format("{}:block={}:scale={}", name, block, Scale::kName);
  traits.block = block;
  traits.bits = 8.0 * static_cast<double>(Block().bytes(block)) / block;
  // Half of the last place of a number near the largest one.
  traits.error = (1 + Scale::kRelative) / (1 << (Narrow::kMantissaBits + 1)) + kFloatError;
  traits.least = Scale::kLeast;
  traits.largest = std::min(Scale::kLargest * largest_value<Narrow>(), 3.4e38);
  traits.specials =
      "a block with NaN or infinity becomes NaN; zeros keep their sign; denormal values become 0";
  return block_format(std::move(traits), Block(), loops);
}

template <class Narrow>
std::unique_ptr<const Format> make_float8(const char* name, std::uint32_t block, ScaleKind scale,
                                          Loops loops) {
  return scale == ScaleKind::kFloat16 ? make_float8<Narrow, Float16Scale>(name, block, loops)
                                      : make_float8<Narrow, Float32Scale>(name, block, loops);
}

}  // namespace

std::unique_ptr<const Format> float8_format(Eight eight, std::uint32_t block, ScaleKind scale,
                                            Loops loops) {
  return eight == Eight::kE4m3 ? make_float8<Float8e4m3>("e4m3", block, scale, loops)
                               : make_float8<Float8e5m2>("e5m2", block, scale, loops);
}

}  // namespace tutti::codec
