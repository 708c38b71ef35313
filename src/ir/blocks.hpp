// Blocks of different sizes: what a call of all_gather or reduce_scatter says where a count for
// each rank takes the place of one count.
//
// A schedule knows no sizes: it says which chunk of whose block goes where. So the schedule that is
// proved for equal blocks does for any, provided that no place made for a chunk of one block is
// used for a chunk of another (lower::CheckOptions::uneven_blocks).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/ir/request.hpp"
#include "src/ir/schedule.hpp"

namespace tutti::ir {

/// Value. In elements.
struct Blocks {
  std::vector<std::size_t> counts;  ///< of each rank's block; the same on all ranks
  std::vector<std::size_t> starts;  ///< of each, in this rank's buffer that holds all blocks

  [[nodiscard]] std::size_t total() const;
  /// The blocks follow each other without gaps, in order.
  [[nodiscard]] bool packed() const;
  friend bool operator==(const Blocks&, const Blocks&) = default;
};

/// Whether that buffer holds the block of its rank alone, where the other one holds those of all.
constexpr bool is_own_block(Collective collective, Space space) {
  return (collective == Collective::kAllGather && space == Space::kInput) ||
         (collective == Collective::kReduceScatter && space == Space::kOutput);
}

/// Whether blocks may have different sizes.
constexpr bool may_be_uneven(Collective collective) {
  return is_own_block(collective, Space::kInput) || is_own_block(collective, Space::kOutput);
}

/// The chunk of the buffer of all blocks that is as long as `chunk` of `space` of `rank`, whatever
/// sizes the blocks have; of other buffers, `chunk` itself.
std::uint32_t chunk_of_all(const Request& request, std::uint32_t chunks_per_block, Rank rank,
                           Space space, std::uint32_t chunk);

}  // namespace tutti::ir
