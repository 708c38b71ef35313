// Measurements of a machine: which of several ways to run calls is the fastest.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/types.hpp"

namespace tutti {

/// Calls that are measured together, described by what all ranks know about them. Value.
struct CallClass {
  Collective collective = Collective::kAllReduce;
  std::int32_t ranks = 0;
  std::uint8_t size =
      0;  ///< a rank's largest input has more than 2^(size-1) and up to 2^size bytes
  std::int32_t hosts = 1;  ///< groups of ranks that share memory
  std::int32_t most_on_a_host = ranks;
  std::int32_t machines = 1;     ///< number of machines below the hosts: containers may share one
  std::uint32_t mbit_per_s = 0;  ///< of the slowest interface between hosts; 0: unknown
  friend auto operator<=>(const CallClass&, const CallClass&) = default;
};

inline constexpr std::uint8_t kLargestSize = 63;

/// CallClass::size for this many bytes.
std::uint8_t size_class(std::size_t bytes);
/// "all_to_all, 4 ranks, up to 256 KiB", "all_reduce, 8 ranks on 2 hosts (at most 4 on one, 1
/// machine, 10000 Mbit/s), ...".
std::string describe(const CallClass& of);

/// A way to run a call. All ways tried for one class give bit-for-bit equal results. Value.
struct Way {
  std::string algorithm;
  bool kernel_reads = false;  ///< large inputs are read directly, through the kernel
  friend bool operator==(const Way&, const Way&) = default;
};
/// "one_shot", "direct by kernel reads".
std::string describe(const Way& way);

/// The measured fastest way for a class of calls. Value.
struct Verdict {
  CallClass of;
  Way way;
  std::int64_t measured_s = 0;  ///< time of the measurement: seconds since 1970
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

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
