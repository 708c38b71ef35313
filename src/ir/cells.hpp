// One rank's memory as a flat range of cells, one a chunk, with in-place aliases folded together.
//
// Output chunk k is cell k; input chunks follow, except that an aliased one is its output chunk's
// cell; scratch comes last. Everything that asks "is this the same memory?" asks it here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/ir/schedule.hpp"

namespace tutti::ir {

/// Value: copies what it needs of the schedule.
class CellMap {
 public:
  CellMap(const Schedule& schedule, Rank rank)
      : CellMap(block_counts(schedule.request, rank), aliasing(schedule.request, rank),
                schedule.chunks_per_block,
                schedule.programs[static_cast<std::size_t>(rank)].scratch.size()) {}

  /// Chunks in a space: valid chunk numbers are below it.
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
  /// Cell numbers are below it.
  [[nodiscard]] std::uint64_t size() const { return output_ + input_ + scratch_; }

  /// The cell of a chunk, which must exist.
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

  /// Whether an input chunk shares its memory with an output chunk.
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

/// The index of a chunk within its block, which decides its length. Scratch is sized like the chunk
/// it names.
inline std::uint32_t index_in_block(const Schedule& schedule, Rank rank, Space space,
                                    std::uint32_t chunk) {
  const std::uint32_t like = space == Space::kScratch
                                 ? schedule.programs[static_cast<std::size_t>(rank)].scratch[chunk]
                                 : chunk;
  return like % schedule.chunks_per_block;
}

}  // namespace tutti::ir
