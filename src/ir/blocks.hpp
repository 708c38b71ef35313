// Blocks of different sizes: a call of all_gather or reduce_scatter with one count per rank instead
// of one count.
//
// Schedules contain no sizes: they say which chunk of whose block goes where. So a schedule proved
// for equal blocks also serves unequal blocks, if each place holds chunks of one block only.
// lower::CheckOptions::uneven_blocks checks that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/ir/request.hpp"
#include "src/ir/schedule.hpp"

namespace tutti::ir {

/// Value. All numbers are in elements.
struct Blocks {
  std::vector<std::size_t> counts;  ///< size of each rank's block; equal on all ranks
  std::vector<std::size_t> starts;  ///< offset of each block in this rank's buffer of all blocks

  [[nodiscard]] std::size_t total() const;
  /// Whether the blocks follow each other in order and without gaps.
  [[nodiscard]] bool packed() const;
  friend bool operator==(const Blocks&, const Blocks&) = default;
};

/// Whether the buffer holds only its rank's own block. The other buffer then holds the blocks of
/// all ranks.
constexpr bool is_own_block(Collective collective, Space space) {
  return (collective == Collective::kAllGather && space == Space::kInput) ||
         (collective == Collective::kReduceScatter && space == Space::kOutput);
}

/// Whether blocks may have different sizes in this collective.
constexpr bool may_be_uneven(Collective collective) {
  return is_own_block(collective, Space::kInput) || is_own_block(collective, Space::kOutput);
}

/// The chunk of the buffer of all blocks that is always as long as `chunk` of `space` of `rank`,
/// whatever sizes the blocks have. For other buffers, `chunk` itself.
std::uint32_t chunk_of_all(const Request& request, std::uint32_t chunks_per_block, Rank rank,
                           Space space, std::uint32_t chunk);

}  // namespace tutti::ir
