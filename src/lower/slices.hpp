// The length of a lowered program's slices, once the chunk sizes are known.
#pragma once

#include <cstddef>

#include "src/lower/program.hpp"

namespace tutti::lower {

/// Slots do not share cache lines: pieces of a slot are a multiple of this many bytes apart.
inline constexpr std::size_t kStrideUnit = 128;

/// Elements per slice, at least 1. It is the longest slice that fits a staging region of
/// `staging_bytes`. If there is enough data, it makes several slices, so that the pipeline's stages
/// overlap. Equal on every rank, because it depends only on the call and agreed options.
/// `longest_chunk` is in elements. Executors and predictions both use it. A multiple of `block`,
/// the power of two that is the block of the program's format: so a slice is encoded alike wherever
/// it begins. If not even one block fits, the slice is a block all the same.
std::size_t slice_elements(const Lowered& lowered, std::size_t longest_chunk,
                           std::size_t element_bytes, std::size_t staging_bytes,
                           std::size_t block = 1);

}  // namespace tutti::lower
