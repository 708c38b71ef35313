// A table of which algorithm is the fastest, as `tutti tune` measured it, and its JSON text.
//
//   {"format": "tutti-table", "version": 1,
//    "ranges": [{"collective": "all_reduce", "ranks": 4, "hosts": 2, "most_on_a_host": 2,
//                "topology": "00c0ffee00c0ffee", "from_bytes": 23, "to_bytes": 181,
//                "algorithm": "one_shot", "kernel_reads": false, "at_bytes": 64,
//                "nanoseconds": 800, "next_nanoseconds": 950, "measured": 1800000000}, ...]}
//
// Bytes are those of `tutti bench`: the longer of a rank's two buffers. "topology" may be missing,
// other keys may not, and no others are accepted.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/cost/tuning.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Communicators that a measurement holds for. Value.
struct Arrangement {
  std::int32_t ranks = 0;
  std::int32_t hosts = 1;  ///< groups of ranks that share memory
  std::int32_t most_on_a_host = 0;
  std::uint64_t topology = 0;  ///< a hash of how their machines are wired; 0: unknown
  friend auto operator<=>(const Arrangement&, const Arrangement&) = default;
};

/// Which way is the fastest for calls of some sizes. Value.
struct MeasuredRange {
  Collective collective = Collective::kAllReduce;
  Arrangement arrangement;
  std::uint64_t from_bytes = 0, to_bytes = 0;  ///< both included
  Way way;
  std::uint64_t at_bytes = 0;    ///< what was measured to know it
  std::uint64_t nanos = 0;       ///< a call took there
  std::uint64_t next_nanos = 0;  ///< by the next best way; 0: there was no other
  std::int64_t measured_s = 0;   ///< when: seconds since 1970
  friend bool operator==(const MeasuredRange&, const MeasuredRange&) = default;
};

/// Longest text that is read.
inline constexpr std::size_t kMostTableBytes = 4 << 20;
/// In a table; beyond it the oldest are forgotten.
inline constexpr std::size_t kMostRanges = 4096;
/// Largest size, and longest time.
inline constexpr std::uint64_t kMostMeasured = std::uint64_t{1} << 60U;

/// Ok, or what no range may be: ranks that do not fit their hosts, an end before its beginning.
Status check(const MeasuredRange& range);

/// Value. Its ranges never overlap: of two measurements of the same calls the newer one counts.
class MeasuredTable {
 public:
  /// Takes the place of what it overlaps, but for what was measured later. What remains of others
  /// stays; pieces of one measurement that touch become one again. `range` passes check().
  void add(const MeasuredRange& range);
  void merge(const MeasuredTable& other);

  /// By collective, arrangement and size.
  [[nodiscard]] const std::vector<MeasuredRange>& ranges() const { return ranges_; }
  /// Those for that many ranks.
  [[nodiscard]] MeasuredTable of_ranks(std::int32_t ranks) const;
  /// Of calls of `bytes`: as measured on the same wiring, else where the wiring was not known;
  /// nullptr where neither was. It stays until the table changes.
  [[nodiscard]] const MeasuredRange* find(Collective collective, const Arrangement& arrangement,
                                          std::uint64_t bytes) const;

  [[nodiscard]] std::string text() const;
  /// Any bytes may be parsed. kInvalidArgument names line and column where the text is no JSON, and
  /// the place ("ranges[3].ranks") where it is no table.
  static Result<MeasuredTable> parse(std::string_view text);

  friend bool operator==(const MeasuredTable&, const MeasuredTable&) = default;

 private:
  [[nodiscard]] const MeasuredRange* find_exactly(Collective collective,
                                                  const Arrangement& arrangement,
                                                  std::uint64_t bytes) const;
  void forget_the_oldest();

  std::vector<MeasuredRange> ranges_;
};

}  // namespace tutti
