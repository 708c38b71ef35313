// One rank's memory as a flat range of cells, one cell per chunk; aliased chunks share a cell.
//
// Output chunk k is cell k. Input chunks follow; an aliased input chunk has the cell of its output
// chunk. Scratch comes last. All code that asks whether two chunks are the same memory uses this
// map.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/ir/schedule.hpp"

namespace tutti::ir {

/// Value: copies what it needs from the schedule.
class CellMap {
 public:
  CellMap(const Schedule& schedule, Rank rank)
      : CellMap(block_counts(schedule.request, rank), aliasing(schedule.request, rank),
                schedule.chunks_per_block,
                schedule.programs[static_cast<std::size_t>(rank)].scratch.size()) {}

  /// Number of chunks in a space; valid chunk numbers are smaller.
  [[nodiscard]] std::uint64_t chunks(Space space) const {
    switch (space) {
      case Space::kInput:
        return input_;
      case Space::kOutput:
        return output_;
      case Space::kScratch:
        return scratch_;
    }
    return 0;
  }
  /// Number of cells; valid cell numbers are smaller.
  [[nodiscard]] std::uint64_t size() const { return output_ + input_ + scratch_; }

  /// The cell of an existing chunk.
  [[nodiscard]] std::size_t cell(Space space, std::uint32_t chunk) const {
    switch (space) {
      case Space::kInput:
        return aliased(chunk) ? chunk - alias_input_ + alias_output_ : output_ + chunk;
      case Space::kOutput:
        return chunk;
      case Space::kScratch:
        return output_ + input_ + chunk;
    }
    return 0;
  }

  /// Whether an input chunk shares memory with an output chunk.
  [[nodiscard]] bool aliased(std::uint32_t input_chunk) const {
    return input_chunk >= alias_input_ && input_chunk - alias_input_ < alias_chunks_;
  }

 private:
  CellMap(BlockCounts blocks, const Aliasing& alias, std::uint64_t per_block, std::uint64_t scratch)
      : input_(static_cast<std::uint64_t>(blocks.input) * per_block),
        output_(static_cast<std::uint64_t>(blocks.output) * per_block),
        scratch_(scratch),
        alias_input_(static_cast<std::uint64_t>(alias.input_block) * per_block),
        alias_output_(static_cast<std::uint64_t>(alias.output_block) * per_block),
        alias_chunks_(alias.exists ? static_cast<std::uint64_t>(alias.blocks) * per_block : 0) {}

  std::uint64_t input_;
  std::uint64_t output_;
  std::uint64_t scratch_;
  std::uint64_t alias_input_;
  std::uint64_t alias_output_;
  std::uint64_t alias_chunks_;
};

/// The chunk's index within its block, which determines its length. A scratch chunk has the length
/// of the chunk that it names.
inline std::uint32_t index_in_block(const Schedule& schedule, Rank rank, Space space,
                                    std::uint32_t chunk) {
  const std::uint32_t like = space == Space::kScratch
                                 ? schedule.programs[static_cast<std::size_t>(rank)].scratch[chunk]
                                 : chunk;
  return like % schedule.chunks_per_block;
}

}  // namespace tutti::ir
