// The length of a lowered program's slices, once the chunk sizes are known.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/lower/program.hpp"

namespace tutti::lower {

/// Slots do not share cache lines: pieces of a slot are a multiple of this many bytes apart.
inline constexpr std::size_t kStrideUnit = 128;

/// What a program's slots, and its messages if it has no slots, hold: elements, or blocks of a
/// format. Value.
struct SlotUnit {
  std::size_t elements = 1;  ///< a power of two
  std::size_t bytes = 0;     ///< of so many; 0: as elements are
};
/// The formats of what is in slots and in messages, kPlain among them: a bit each.
std::uint8_t formats_that_travel(const Lowered& lowered);

/// Elements per slice, at least 1. It is the longest slice that fits a staging region of
/// `staging_bytes`. If there is enough data, it makes several slices, so that the pipeline's stages
/// overlap. Equal on every rank, because it depends only on the call and agreed options.
/// `longest_chunk` is in elements. Executors and predictions both use it. A multiple of
/// unit.elements: so a slice is encoded alike wherever it begins. If not even one block fits, the
/// slice is a block all the same.
std::size_t slice_elements(const Lowered& lowered, std::size_t longest_chunk,
                           std::size_t element_bytes, std::size_t staging_bytes,
                           SlotUnit unit = {});

}  // namespace tutti::lower
