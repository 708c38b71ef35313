// What a rank that only loads tells those that store for it: a word in its shared memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "src/exec/store_choice.hpp"

namespace tutti::exec {

/// 16 bits of the call's hash, then two times of 24 bits, in units of 16 ns. Longer ones are cut.
inline constexpr unsigned kTimeBits = 24, kUnitNanos = 16;

constexpr std::uint64_t pack_load_times(std::uint64_t call_hash, const TimesByStores& times) {
  std::uint64_t word = call_hash << (2 * kTimeBits);
  for (unsigned i = 0; i < 2; ++i) {
    constexpr std::uint64_t kMost = (std::uint64_t{1} << kTimeBits) - 1;
    const auto units = static_cast<std::uint64_t>(times[i].count()) / kUnitNanos;
    word |= std::clamp<std::uint64_t>(units, 1, kMost) << (i * kTimeBits);
  }
  return word;
}

/// Nothing if the word is about another call, or about none.
constexpr std::optional<TimesByStores> unpack_load_times(std::uint64_t call_hash,
                                                         std::uint64_t word) {
  if (word == 0 || word >> (2 * kTimeBits) != (call_hash & 0xffff)) return std::nullopt;
  TimesByStores times;
  for (unsigned i = 0; i < 2; ++i)
    times[i] = Nanos(static_cast<Nanos::rep>(
        (word >> (i * kTimeBits) & ((std::uint64_t{1} << kTimeBits) - 1)) * kUnitNanos));
  return times;
}

}  // namespace tutti::exec
