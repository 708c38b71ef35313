// nvfp4: floats of 4 bits (e2m1). Each 16 have a scale in e4m3, and each 4,096 a second one in
// float32, which makes the largest of those scales the largest e4m3.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/device_macros.hpp"
#include "src/codec/elements.hpp"
#include "src/codec/packing.hpp"
#include "src/codec/rounding.hpp"
#include "src/codec/scale.hpp"

namespace tutti::codec {

inline constexpr std::uint32_t kNvfp4Block = 4096, kGroup = 16;
inline constexpr float kMostElement = 6, kMostScale = 448;

struct Nvfp4Block {
  static constexpr std::size_t groups(std::size_t count) { return (count + kGroup - 1) / kGroup; }
  TUTTI_DEVICE std::size_t bytes(std::size_t count) const {
    return Float32Scale::kBytes + groups(count) + (count + 1) / 2;
  }

  /// Loops of a constant length are vectorised better.
  template <class Function>
  [[gnu::always_inline]] TUTTI_DEVICE static void for_each_group(std::size_t count,
                                                                 const Function& function) {
    std::size_t begin = 0;
    for (; begin + kGroup <= count; begin += kGroup) function(begin, std::size_t{kGroup});
    if (begin < count) function(begin, count - begin);
  }

  template <bool kRandom>
  [[gnu::always_inline]] TUTTI_DEVICE void encode(const float* in, std::size_t count,
                                                  const Rounding& rounding, std::byte* out) const {
    const std::uint32_t largest = largest_magnitude(in, count);
    const bool finite = largest < kInfinityBits;
    const float second = Float32Scale::store(finite ? float_of(largest) : float_of(kNanBits),
                                             kMostElement * kMostScale, out);
    const float inverse_second = reciprocal(second);
    std::byte* const scales = out + Float32Scale::kBytes;
    std::byte* const codes = scales + groups(count);

    // In three passes, which are vectorised each: over values, over groups, over values.
    float most[kNvfp4Block / kGroup], inverses[kNvfp4Block / kGroup];
    const auto measure_group = [&](std::size_t begin, std::size_t size) TUTTI_INLINED {
      most[begin / kGroup] = finite ? float_of(largest_magnitude(in + begin, size)) : 0.0F;
    };
    for_each_group(count, measure_group);
    for (std::size_t group = 0; group < groups(count); ++group) {
      const std::uint32_t scale = round_up<Float8e4m3>(
          most[group] * (inverse_second / kMostElement), Float8e4m3::kOverflow);
      scales[group] = static_cast<std::byte>(scale);
      const float inverse = reciprocal(widen_finite<Float8e4m3>(scale)) * inverse_second;
      inverses[group] = clamp(inverse, 0, 0x1.fffffep127F);  // by infinity, 0 would become NaN
    }
    const auto encode_group = [&](std::size_t begin, std::size_t size) TUTTI_INLINED {
      const float inverse = inverses[begin / kGroup];
      const auto first = static_cast<std::uint32_t>(rounding.first + begin);
      std::uint8_t each[kGroup];
      for (std::size_t i = 0; i < size; ++i) {
        const float value = finite ? in[begin + i] : 0.0F;
        const std::uint32_t random =
            kRandom ? random_bits(rounding.key, first + static_cast<std::uint32_t>(i)) : 0;
        each[i] = static_cast<std::uint8_t>(narrow_finite<Float4e2m1, kRandom>(
            clamp(value * inverse, -kMostElement, kMostElement), random));
      }
      pack_in_fours(size, codes + begin / 2,
                    [&](std::size_t i) TUTTI_INLINED { return std::uint32_t{each[i]}; });
    };
    for_each_group(count, encode_group);
  }

  [[gnu::always_inline]] TUTTI_DEVICE bool decode(const std::byte* in, std::size_t count,
                                                  float* out) const {
    const float second = Float32Scale::load(in);
    const std::byte* const scales = in + Float32Scale::kBytes;
    const std::byte* const codes = scales + groups(count);
    const auto decode_group = [&](std::size_t begin, std::size_t size) TUTTI_INLINED {
      const float scale =
          widen_finite<Float8e4m3>(static_cast<std::uint32_t>(scales[begin / kGroup])) * second;
      unpack_fours(codes + begin / 2, size, out + begin, [&](std::uint32_t code) TUTTI_INLINED {
        return widen_finite<Float4e2m1>(code) * scale;
      });
    };
    for_each_group(count, decode_group);
    return true;
  }
};

}  // namespace tutti::codec
