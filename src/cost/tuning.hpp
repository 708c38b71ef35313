// Trials: which calls are measured together, and what times say about the ways that were tried.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "src/cost/measured_table.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Calls of one communicator that are measured together. Value.
struct CallClass {
  Collective collective = Collective::kAllReduce;
  /// A rank's largest input has more than 2^(size-1) and up to 2^size bytes.
  std::uint8_t size = 0;
  friend auto operator<=>(const CallClass&, const CallClass&) = default;
};

/// Larger calls are of this class, too.
inline constexpr std::uint8_t kLargestSize = 60;
static_assert(kMostMeasured == std::uint64_t{1} << kLargestSize);

/// CallClass::size for this many bytes.
std::uint8_t size_class(std::size_t bytes);
/// "all_to_all, 4 ranks, up to 256 KiB", "all_reduce, 8 ranks on 2 hosts (at most 4 on one, 1
/// machine, 10000 Mbit/s), ...".
std::string describe(const CallClass& of, const Arrangement& arrangement);

/// The verdict that `way` is the fastest for a class, without times. Tables count the larger of a
/// rank's two buffers, so the sizes are not those of the class if outputs are larger than inputs.
MeasuredRange verdict_on(const CallClass& of, const Arrangement& arrangement, const Way& way = {},
                         std::int64_t measured_s = 0);

/// When one rank began and ended a trial, in nanoseconds of a clock that only the ranks of its host
/// share. Zeros: it took no part. A peer's numbers may be anything.
struct Try {
  std::uint64_t began = 0, ended = 0;
};

/// Duration of a trial, from the last rank's start. So a late rank does not count against the way.
/// Empty if a rank has no numbers or impossible ones.
std::optional<std::uint64_t> since_last_came(std::span<const Try> ranks);
/// The same from the first rank's start, but not before the call `before` was over for all ranks.
/// If ranks share CPUs, the last rank may be late because the others were busy with this very call.
std::optional<std::uint64_t> since_first_came(std::span<const Try> ranks,
                                              std::span<const Try> before);

/// The shortest, or the longest, of the ranks' own durations of a trial. Ranks without a common
/// clock know no more. If all ranks wait for all, the shortest is about the time since the last
/// rank's start. Empty if a rank has no numbers or impossible ones.
std::optional<std::uint64_t> shortest(std::span<const Try> ranks);
std::optional<std::uint64_t> longest(std::span<const Try> ranks);

/// The representative time of a way's trials: the lower quartile, because chance makes calls slower
/// but seldom faster. Empty if fewer than half of the trials have a time.
std::optional<std::uint64_t> typical(std::span<const std::optional<std::uint64_t>> tries);

/// Index of the fastest way, given each way's time. The first way is in use; another must be at
/// least a tenth faster to replace it. Empty if the first has no time, or no other has one.
std::optional<std::size_t> fastest(std::span<const std::optional<std::uint64_t>> nanos);

}  // namespace tutti
