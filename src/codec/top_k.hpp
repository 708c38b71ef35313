// topk: of each block the values of largest magnitude, exactly, with their places. All others
// become 0. Of values of the same magnitude the first ones are kept.
//
// The smallest kept magnitude is found by counting how many are at least as large: first at powers
// of two from the largest magnitude down, then by bisection. Once few enough values reach the
// bound, these alone are looked at. So of most blocks all values are read four or five times.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "src/base/device_macros.hpp"
#include "src/codec/elements.hpp"
#include "src/codec/packing.hpp"
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

  template <bool kRandom>
  [[gnu::always_inline]] TUTTI_DEVICE void encode(const float* in, std::size_t count,
                                                  const Rounding&, std::byte* out) const {
    Search search{0, largest_magnitude(in, count) + 1, count, 0, kept_of(count)};
    const auto in_block = [&](std::uint32_t least) TUTTI_INLINED {
      std::uint32_t found = 0;
      for (std::size_t i = 0; i < count; ++i) found += magnitude_of(in[i]) >= least ? 1 : 0;
      return std::size_t{found};
    };
    constexpr std::uint32_t kPowersOfTwo = 0x7f800000u;
    std::uint32_t least = (search.high - 1) & kPowersOfTwo;
    for (std::uint32_t step = 1u << 23; search.low == 0 && least > 0 && !search.is_over();
         step *= 2) {
      search.look(least, in_block);
      least = least > step ? least - step : 0;
    }
    // Fewer are cheaper to collect than the passes over all that it takes.
    const std::size_t few_enough = search.wanted * 3 < kFew ? search.wanted * 3 : kFew;
    while (search.reach > few_enough && !search.is_over()) search.look(search.middle(), in_block);
    if (search.reach > kFew) return keep_of_all(in, count, search, out);

    std::uint16_t places[kFew];
    std::uint32_t magnitudes[kFew];
    const std::size_t few = collect(in, count, search.low, places);
    for (std::size_t i = 0; i < few; ++i) magnitudes[i] = magnitude_of(in[places[i]]);
    const auto in_few = [&](std::uint32_t bound) TUTTI_INLINED {
      std::uint32_t found = 0;
      for (std::size_t i = 0; i < few; ++i) found += magnitudes[i] >= bound ? 1 : 0;
      return std::size_t{found};
    };
    while (!search.is_over()) search.look(search.middle(), in_few);
    // Without branches, which nobody could predict.
    std::size_t kept = 0, equal = search.equal();
    for (std::size_t i = 0; i < few; ++i) {
      const std::size_t takes_equal = magnitudes[i] == search.low && equal > 0 ? 1 : 0;
      places[kept] = places[i];
      kept += magnitudes[i] > search.low ? 1 : takes_equal;
      equal -= takes_equal;
    }
    std::memcpy(out, places, kept * sizeof places[0]);
    std::byte* const values = out + kept * sizeof places[0];
    for (std::size_t i = 0; i < kept; ++i)
      std::memcpy(values + i * sizeof(float), in + places[i], sizeof(float));
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

 private:
  static constexpr std::size_t kFew = 512;

  /// For the bound of what is kept. `reach` magnitudes are `low` or more, at least as many as
  /// wanted; `above` of them, fewer than wanted, are `high` or more.
  struct Search {
    std::uint32_t low, high;
    std::size_t reach, above, wanted;

    [[nodiscard]] TUTTI_DEVICE bool is_over() const { return reach == wanted || high - low <= 1; }
    [[nodiscard]] TUTTI_DEVICE std::uint32_t middle() const { return low + (high - low) / 2; }
    /// Of those that equal `low`, how many are kept.
    [[nodiscard]] TUTTI_DEVICE std::size_t equal() const {
      return reach == wanted ? wanted : wanted - above;
    }
    template <class Count>
    [[gnu::always_inline]] TUTTI_DEVICE void look(std::uint32_t least, const Count& count_from) {
      const std::size_t found = count_from(least);
      if (found < wanted) {
        high = least;
        above = found;
      } else {
        low = least;
        reach = found;
      }
    }
  };

  /// Where too many values reach the bound to be collected first.
  [[gnu::always_inline]] TUTTI_DEVICE static void keep_of_all(const float* in, std::size_t count,
                                                              const Search& search,
                                                              std::byte* out) {
    std::byte* values = out + search.wanted * sizeof(std::uint16_t);
    std::size_t equal = search.equal();
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t magnitude = magnitude_of(in[i]);
      if (magnitude < search.low) continue;
      if (magnitude == search.low) {
        if (equal == 0) continue;
        --equal;
      }
      const auto place = static_cast<std::uint16_t>(i);
      std::memcpy(out, &place, sizeof place);
      std::memcpy(values, in + i, sizeof(float));
      out += sizeof place;
      values += sizeof(float);
    }
  }

  /// Not std::countr_zero, which nvcc 13.0 takes for the constant 32 in a kernel.
  static TUTTI_DEVICE std::size_t lowest_bit(std::uint32_t bits) {
    return 31U - static_cast<std::size_t>(std::countl_zero(bits & (0U - bits)));
  }

  /// The places of magnitudes from `least` on, which are kFew at most; returns how many.
  [[gnu::always_inline]] TUTTI_DEVICE static std::size_t collect(const float* in, std::size_t count,
                                                                 std::uint32_t least,
                                                                 std::uint16_t* places) {
    constexpr std::size_t kGroup = 32;
    std::size_t found = 0, begin = 0;
    for (; begin + kGroup <= count; begin += kGroup) {
      std::uint32_t reaching = 0;  // a bit each
      for (std::uint32_t i = 0; i < kGroup; ++i)
        reaching |= (magnitude_of(in[begin + i]) >= least ? 1U : 0U) << i;
      for (; reaching != 0; reaching &= reaching - 1)
        places[found++] = static_cast<std::uint16_t>(begin + lowest_bit(reaching));
    }
    for (; begin < count; ++begin)
      if (magnitude_of(in[begin]) >= least) places[found++] = static_cast<std::uint16_t>(begin);
    return found;
  }
};

}  // namespace tutti::codec
