// topk: of each block the values of largest magnitude, exactly, with their places. All others
// become 0. Of values of the same magnitude the first ones are kept.
//
// The smallest kept magnitude is found by counting how many are at least as large: first at powers
// of two from the largest magnitude down, then by bisection. Once few enough values reach the
// bound, these alone are looked at. So of most blocks all values are read four or five times.
#pragma once

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
    while (search.reach > kFew && !search.is_over()) search.look(search.middle(), in_block);
    if (search.reach > kFew) {
      Kept kept(search, out);
      for (std::size_t i = 0; i < count; ++i) kept.offer(i, in[i]);
      return;
    }

    std::uint16_t places[kFew + 1];
    std::uint32_t magnitudes[kFew];
    const std::size_t few = collect(in, count, search.low, places);
    for (std::size_t i = 0; i < few; ++i) magnitudes[i] = magnitude_of(in[places[i]]);
    const auto in_few = [&](std::uint32_t bound) TUTTI_INLINED {
      std::uint32_t found = 0;
      for (std::size_t i = 0; i < few; ++i) found += magnitudes[i] >= bound ? 1 : 0;
      return std::size_t{found};
    };
    while (!search.is_over()) search.look(search.middle(), in_few);
    Kept kept(search, out);
    for (std::size_t i = 0; i < few; ++i) kept.offer(places[i], in[places[i]]);
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

  /// What is kept, as it is written: places, then values.
  class Kept {
   public:
    TUTTI_DEVICE Kept(const Search& search, std::byte* out)
        : places_(out),
          values_(out + search.wanted * sizeof(std::uint16_t)),
          low_(search.low),
          equal_(search.equal()) {}
    /// In the order of places.
    [[gnu::always_inline]] TUTTI_DEVICE void offer(std::size_t place, float value) {
      const std::uint32_t magnitude = magnitude_of(value);
      if (magnitude < low_) return;
      if (magnitude == low_) {
        if (equal_ == 0) return;
        --equal_;
      }
      const auto index = static_cast<std::uint16_t>(place);
      std::memcpy(places_, &index, sizeof index);
      std::memcpy(values_, &value, sizeof value);
      places_ += sizeof index;
      values_ += sizeof value;
    }

   private:
    std::byte *places_, *values_;
    std::uint32_t low_;
    std::size_t equal_;
  };

  /// The places of magnitudes from `least` on, which are kFew at most; returns how many.
  [[gnu::always_inline]] TUTTI_DEVICE static std::size_t collect(const float* in, std::size_t count,
                                                                 std::uint32_t least,
                                                                 std::uint16_t* places) {
    constexpr std::size_t kGroup = 16;
    std::size_t found = 0, begin = 0;
    const auto take = [&](std::size_t i) TUTTI_INLINED {
      places[found] = static_cast<std::uint16_t>(i);  // the last one may lie beyond what is found
      found += magnitude_of(in[i]) >= least ? 1 : 0;
    };
    for (; begin + kGroup <= count; begin += kGroup) {
      if (largest_magnitude(in + begin, kGroup) < least) continue;
      for (std::size_t i = 0; i < kGroup; ++i) take(begin + i);
    }
    for (; begin < count; ++begin) take(begin);
    return found;
  }
};

}  // namespace tutti::codec
