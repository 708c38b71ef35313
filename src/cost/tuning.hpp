// What is measured about a machine: which of several ways of running calls is the fastest there.
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

/// Calls that are measured together: what all ranks know of a call, and no more than that. Value.
struct CallClass {
  Collective collective = Collective::kAllReduce;
  std::int32_t ranks = 0;
  std::uint8_t size = 0;   ///< the largest input of a rank: up to 2^size bytes, more than half that
  std::int32_t hosts = 1;  ///< groups of ranks that share memory
  std::int32_t most_on_a_host = ranks;
  std::int32_t machines = 1;     ///< that the hosts are on: containers may share one
  std::uint32_t mbit_per_s = 0;  ///< of the slowest interface between hosts; 0: unknown
  friend auto operator<=>(const CallClass&, const CallClass&) = default;
};

inline constexpr std::uint8_t kLargestSize = 63;

/// CallClass::size of so many bytes.
std::uint8_t size_class(std::size_t bytes);
/// "all_to_all, 4 ranks, up to 256 KiB", "all_reduce, 8 ranks on 2 hosts (at most 4 on one, 1
/// machine, 10000 Mbit/s), ...".
std::string describe(const CallClass& of);

/// A way of running a call. Those that are tried for one class give the same results bit for bit.
/// Value.
struct Way {
  std::string algorithm;
  bool kernel_reads = false;  ///< large inputs are read where they lie, through the kernel
  friend bool operator==(const Way&, const Way&) = default;
};
/// "one_shot", "direct by kernel reads".
std::string describe(const Way& way);

/// The fastest way for a class of calls, as it was measured. Value.
struct Verdict {
  CallClass of;
  Way way;
  std::int64_t measured_s = 0;  ///< when: seconds since 1970
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

/// When one rank began and ended a try, in nanoseconds of a clock that all ranks of a host share,
/// and no others. Zeros: it did not try. A peer's numbers may be anything.
struct Try {
  std::uint64_t began = 0, ended = 0;
};

/// What a try took from when the last rank came: one that came late does not count against the way
/// that was tried. None when some rank has no numbers, or impossible ones.
std::optional<std::uint64_t> since_last_came(std::span<const Try> ranks);
/// The same from when the first rank came and the call before was over for all: where ranks share
/// CPUs, the last one may have come late because the others were busy with this very call.
std::optional<std::uint64_t> since_first_came(std::span<const Try> ranks,
                                              std::span<const Try> before);

/// What a try took the rank that it took the shortest, or the longest: what is known of ranks that
/// share no clock. Where all wait for all, the first is about the time since the last one came.
/// None when some rank has no numbers, or impossible ones.
std::optional<std::uint64_t> shortest(std::span<const Try> ranks);
std::optional<std::uint64_t> longest(std::span<const Try> ranks);

/// What the tries of a way amount to: a quarter of them were faster. Chance makes calls slower, and
/// seldom faster. None where less than half of them have a time.
std::optional<std::uint64_t> typical(std::span<const std::optional<std::uint64_t>> tries);

/// The fastest way, given what each takes. The first one is in use and stays unless another is
/// clearly faster: by a tenth. None where the first has no figure, or no other has.
std::optional<std::size_t> fastest(std::span<const std::optional<std::uint64_t>> nanos);

}  // namespace tutti
