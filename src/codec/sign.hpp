// sign: one bit a value, and the mean magnitude of each 4,096 values as scale. Of all scales, the
// mean makes the sum of squared errors the smallest (Bernstein et al., signSGD, ICML 2018, section
// 2; 1-bit Adam takes the root of the mean square in its place).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "src/base/device_macros.hpp"
#include "src/codec/elements.hpp"
#include "src/codec/rounding.hpp"
#include "src/codec/scale.hpp"

namespace tutti::codec {

inline constexpr std::uint32_t kSignBlock = 4096;
inline constexpr std::size_t kWordBits = 32;

struct SignBlock {
  static constexpr std::size_t words(std::size_t count) {
    return (count + kWordBits - 1) / kWordBits;
  }
  TUTTI_DEVICE std::size_t bytes(std::size_t count) const {
    return Float32Scale::kBytes + words(count) * sizeof(std::uint32_t);
  }

  /// In a fixed order, so that all processors round alike. Divided first: a sum cannot overflow.
  [[gnu::always_inline]] TUTTI_DEVICE static float mean_magnitude(const float* in,
                                                                  std::size_t count) {
    constexpr std::size_t kLanes = 32;
    float sums[kLanes] = {};
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        sums[lane] += float_of(magnitude_of(in[i + lane])) * (1.0F / kSignBlock);
    for (; i < count; ++i) sums[i % kLanes] += float_of(magnitude_of(in[i])) * (1.0F / kSignBlock);
    for (std::size_t half = kLanes / 2; half > 0; half /= 2)
      for (std::size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
    return sums[0] * (static_cast<float>(kSignBlock) / static_cast<float>(count));
  }

  template <bool kRandom>
  [[gnu::always_inline]] TUTTI_DEVICE void encode(const float* in, std::size_t count,
                                                  const Rounding&, std::byte* out) const {
    float scale = mean_magnitude(in, count);
    if (magnitude_of(scale) >= kInfinityBits) scale = float_of(kNanBits);
    std::memcpy(out, &scale, sizeof scale);
    // Bit b of word w is value b * words + w: neighbours lie in neighbouring words.
    std::byte* const codes = out + sizeof scale;
    const std::size_t stride = words(count);
    std::uint32_t signs[kSignBlock / kWordBits] = {};
    for (std::size_t bit = 0; bit < kWordBits && bit * stride < count; ++bit) {
      const std::size_t end = std::min(stride, count - bit * stride);
      for (std::size_t word = 0; word < end; ++word)
        signs[word] |= (bits_of(in[bit * stride + word]) >> 31) << bit;
    }
    std::memcpy(codes, signs, stride * sizeof signs[0]);
  }

  [[gnu::always_inline]] TUTTI_DEVICE bool decode(const std::byte* in, std::size_t count,
                                                  float* out) const {
    const std::uint32_t scale = bits_of(Float32Scale::load(in));
    const std::size_t stride = words(count);
    std::uint32_t signs[kSignBlock / kWordBits];
    std::memcpy(signs, in + sizeof scale, stride * sizeof signs[0]);
    for (std::size_t bit = 0; bit < kWordBits && bit * stride < count; ++bit) {
      const std::size_t end = std::min(stride, count - bit * stride);
      for (std::size_t word = 0; word < end; ++word)
        out[bit * stride + word] = float_of(scale ^ (signs[word] >> bit) << 31);
    }
    return true;
  }
};

}  // namespace tutti::codec
