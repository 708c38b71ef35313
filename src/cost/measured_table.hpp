// A table of what was measured as the fastest, by `tutti tune` or by trials, and its JSON text.
//
//   {"format": "tutti-table", "version": 1,
//    "machine": "Xeon, 2 CPUs, Linux 6.1",
//    "ranges": [{"collective": "all_reduce", "ranks": 4, "hosts": 2, "most_on_a_host": 2,
//                "topology": "00c0ffee00c0ffee", "machines": 2, "mbit_per_s": 10000,
//                "from_bytes": 23, "to_bytes": 181, "algorithm": "one_shot",
//                "kernel_reads": false, "at_bytes": 64, "nanoseconds": 800,
//                "next_nanoseconds": 950, "measured": 1800000000}, ...]}
//
// Bytes are counted as `tutti bench` does: the larger of a rank's two buffers. "machine",
// "topology", "machines" and "mbit_per_s" are optional. All other keys are required, and no others
// are accepted.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// A way to run a call. Value.
struct Way {
  std::string algorithm;
  bool kernel_reads = false;  ///< large inputs are read directly, through the kernel
  friend bool operator==(const Way&, const Way&) = default;
};
/// "one_shot", "direct by kernel reads".
std::string describe(const Way& way);

/// The communicators that a measurement applies to. `tutti tune` tells them apart by topology,
/// trials by machines and network. Value.
struct Arrangement {
  std::int32_t ranks = 0;
  std::int32_t hosts = 1;  ///< groups of ranks that share memory
  std::int32_t most_on_a_host = 0;
  std::uint64_t topology = 0;    ///< a hash of how the machines are wired; 0: unknown
  std::int32_t machines = 0;     ///< below several hosts: containers may share one; 0: unknown
  std::uint32_t mbit_per_s = 0;  ///< of the slowest interface between hosts; 0: unknown
  friend auto operator<=>(const Arrangement&, const Arrangement&) = default;
};
/// Of ranks on these hosts, one entry a rank; all else is unknown.
Arrangement arrangement_of(std::span<const std::int32_t> host_of_ranks);

/// The fastest way for calls of some sizes. Value.
struct MeasuredRange {
  Collective collective = Collective::kAllReduce;
  Arrangement arrangement;
  std::uint64_t from_bytes = 0, to_bytes = 0;  ///< inclusive
  Way way;
  std::uint64_t at_bytes = 0;    ///< the size that was measured; of trials, the largest
  std::uint64_t nanos = 0;       ///< time of a call of that size
  std::uint64_t next_nanos = 0;  ///< with the fastest other way; 0: there was none
  std::int64_t measured_s = 0;   ///< time of the measurement: seconds since 1970
  friend bool operator==(const MeasuredRange&, const MeasuredRange&) = default;
};

/// Longest accepted text.
inline constexpr std::size_t kMostTableBytes = 4 << 20;
/// Most ranges in a table; beyond it the oldest are dropped.
inline constexpr std::size_t kMostRanges = 4096;
/// Largest accepted size and time.
inline constexpr std::uint64_t kMostMeasured = std::uint64_t{1} << 60U;
/// How a table's text begins.
inline constexpr std::string_view kTableHead = R"({"format": "tutti-table", "version": 1,)";

/// Ok, or what is wrong: ranks that do not fit their hosts, an end before the beginning.
Status check(const MeasuredRange& range);

/// Value. Its ranges never overlap: the newer of two measurements of the same calls counts.
class MeasuredTable {
 public:
  /// Replaces what it overlaps, except newer measurements. The remaining parts of others stay.
  /// Adjacent pieces of one measurement are joined again. `range` must pass check().
  void add(const MeasuredRange& range);
  void merge(const MeasuredTable& other);

  /// Sorted by collective, arrangement and size.
  [[nodiscard]] const std::vector<MeasuredRange>& ranges() const { return ranges_; }
  /// The ranges for this number of ranks: the newest, if there are more than `most`.
  [[nodiscard]] MeasuredTable of_ranks(std::int32_t ranks, std::size_t most = kMostRanges) const;
  /// Forgets what was measured before `first_s` or after `last_s`.
  void keep_measured(std::int64_t first_s, std::int64_t last_s);
  /// The range for calls of `bytes`, measured on the same wiring, or else on unknown wiring;
  /// nullptr if there is none. Valid until the table changes.
  [[nodiscard]] const MeasuredRange* find(Collective collective, const Arrangement& arrangement,
                                          std::uint64_t bytes) const;

  [[nodiscard]] std::string text() const;
  /// Accepts any bytes. kInvalidArgument names line and column for invalid JSON, and the place
  /// ("ranges[3].ranks") for an invalid table.
  static Result<MeasuredTable> parse(std::string_view text);

  friend bool operator==(const MeasuredTable&, const MeasuredTable&) = default;

  std::string machine;  ///< where all of it was measured; "": not said

 private:
  [[nodiscard]] const MeasuredRange* find_exactly(Collective collective,
                                                  const Arrangement& arrangement,
                                                  std::uint64_t bytes) const;
  void place(const MeasuredRange& range);
  void keep_newest(std::size_t most);

  std::vector<MeasuredRange> ranges_;
};

}  // namespace tutti
