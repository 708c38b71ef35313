#include "src/lower/places.hpp"

#include "src/ir/blocks.hpp"

namespace tutti::lower {

PlaceKey place_of(const ir::Request& request, std::uint32_t chunks_per_block, Rank rank,
                  ProgramMemory memory, std::uint32_t piece) {
  if (memory == ProgramMemory::kOutput && request.in_place) {
    const ir::Aliasing alias = ir::aliasing(request, rank);
    const std::uint32_t first = static_cast<std::uint32_t>(alias.output_block) * chunks_per_block;
    const std::uint32_t count = static_cast<std::uint32_t>(alias.blocks) * chunks_per_block;
    if (alias.exists && piece >= first && piece < first + count)
      return {ProgramMemory::kInput,
              static_cast<std::uint32_t>(alias.input_block) * chunks_per_block + (piece - first)};
  }
  return {memory, piece};
}

}  // namespace tutti::lower
