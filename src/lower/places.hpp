// Places in a rank's own memory, such that in-place aliases are one place. Used inside this folder.
#pragma once

#include <compare>
#include <cstdint>

#include "src/lower/program.hpp"

namespace tutti::lower {

/// (kind, piece); equal where two chunks share memory in place.
struct PlaceKey {
  ProgramMemory memory = ProgramMemory::kInput;
  std::uint32_t piece = 0;
  friend auto operator<=>(const PlaceKey&, const PlaceKey&) = default;
};
PlaceKey place_of(const ir::Request& request, std::uint32_t chunks_per_block, Rank rank,
                  ProgramMemory memory, std::uint32_t piece);

/// Input, output or scratch of the rank itself.
constexpr bool is_own(ProgramMemory memory) {
  return memory == ProgramMemory::kInput || memory == ProgramMemory::kOutput ||
         memory == ProgramMemory::kScratch;
}

}  // namespace tutti::lower
