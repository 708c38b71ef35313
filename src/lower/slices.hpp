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
/// `longest_chunk` is in elements. Executors and predictions both use it.
std::size_t slice_elements(const Lowered& lowered, std::size_t longest_chunk,
                           std::size_t element_bytes, std::size_t staging_bytes);

}  // namespace tutti::lower
