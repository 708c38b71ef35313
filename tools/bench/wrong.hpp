// Describes the first wrong element of a result: where it is, and which rank's work is wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/bench/data.hpp"
#include "tools/bench/shape.hpp"
#include "tutti/types.hpp"

namespace tutti::bench {

/// The chunk of a schedule's output that holds one element, and where its value came from. Value.
struct ChunkOrigin {
  std::uint32_t chunk = 0;   ///< of the rank's output, numbered as `tutti algo show` does
  std::uint32_t chunks = 0;  ///< how many the output has
  std::size_t begin = 0;     ///< its elements in the receive buffer: begin .. end-1
  std::size_t end = 0;
  /// The rank that added last (`reduced`), or whose input the chunk is.
  Rank owner = kNoRank;
  bool reduced = false;
  std::vector<Rank> path;  ///< the ranks that passed it on, from the owner; empty: it never moved
};

/// Follows element `index` of the receive buffer of `rank` back through the schedule of that name.
/// nullopt when no schedule of that name does this shape (send_recv has none), and for jobs of more
/// than kMostTracedRanks ranks, whose schedules take too long to make.
std::optional<ChunkOrigin> chunk_origin(const Shape& shape, bool in_place,
                                        std::string_view algorithm, Rank rank, std::size_t index);
inline constexpr Rank kMostTracedRanks = 512;

/// One line, without its end, for findings.wrong > 0 on `rank`.
std::string wrong_text(const Shape& shape, bool in_place, std::string_view algorithm, Rank rank,
                       const Findings& findings);

}  // namespace tutti::bench
