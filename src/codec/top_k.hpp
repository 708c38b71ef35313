// topk: of each block the values of largest magnitude, exactly, with their places. All others
// become 0. Of values of the same magnitude the first ones are kept.
//
// The smallest kept magnitude is found bit by bit, by counting how many are at least as large. That
// reads the block some 30 times, but from the first-level cache and in vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "src/base/device_macros.hpp"
#include "src/codec/elements.hpp"
#include "src/codec/rounding.hpp"

namespace tutti::codec {

inline constexpr std::size_t kMostBlock = 65536;

struct TopKBlock {
  std::uint32_t kept = 1, block = 1;

  /// Of a block of `count` values: in proportion, at least one.
  TUTTI_DEVICE std::size_t kept_of(std::size_t count) const {
    return (count * kept + block - 1) / block;
  }
  TUTTI_DEVICE std::size_t bytes(std::size_t count) const {
    return kept_of(count) * (sizeof(std::uint16_t) + sizeof(float));
  }

  [[gnu::always_inline]] TUTTI_DEVICE static std::size_t count_from(const float* in,
                                                                    std::size_t count,
                                                                    std::uint32_t least) {
    std::uint32_t found = 0;
    for (std::size_t i = 0; i < count; ++i) found += magnitude_of(in[i]) >= least ? 1 : 0;
    return found;
  }

  template <bool kRandom>
  [[gnu::always_inline]] TUTTI_DEVICE void encode(const float* in, std::size_t count,
                                                  const Rounding&, std::byte* out) const {
    const std::size_t wanted = kept_of(count);
    // The largest bound that enough values reach.
    std::uint32_t bound = 0;
    std::size_t reach = count;
    for (std::uint32_t bit = 1u << 30; bit > 0 && reach != wanted; bit >>= 1) {
      const std::size_t found = count_from(in, count, bound | bit);
      if (found < wanted) continue;
      bound |= bit;
      reach = found;
    }
    // All above it are kept, and as many of those that equal it as there is room for.
    std::size_t equal = wanted;
    if (reach != wanted) equal -= count_from(in, count, bound + 1);
    std::size_t place = 0;
    for (std::size_t i = 0; i < count && place < wanted; ++i) {
      const std::uint32_t magnitude = magnitude_of(in[i]);
      if (magnitude < bound) continue;
      if (magnitude == bound && reach != wanted) {
        if (equal == 0) continue;
        --equal;
      }
      const auto index = static_cast<std::uint16_t>(i);
      std::memcpy(out + place * sizeof index, &index, sizeof index);
      std::memcpy(out + wanted * sizeof index + place * sizeof(float), in + i, sizeof(float));
      ++place;
    }
  }

  [[gnu::always_inline]] TUTTI_DEVICE bool decode(const std::byte* in, std::size_t count,
                                                  float* out) const {
    std::memset(out, 0, count * sizeof(float));
    const std::size_t wanted = kept_of(count);
    std::size_t next = 0;  // places ascend
    for (std::size_t place = 0; place < wanted; ++place) {
      std::uint16_t index;
      std::memcpy(&index, in + place * sizeof index, sizeof index);
      if (index < next || index >= count) return false;
      std::memcpy(out + index, in + wanted * sizeof index + place * sizeof(float), sizeof(float));
      next = std::size_t{index} + 1;
    }
    return true;
  }
};

}  // namespace tutti::codec
