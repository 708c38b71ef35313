// How long the slices of a step program are, once the size of its chunks is known.
#pragma once

#include <cstddef>

#include "src/lower/program.hpp"

namespace tutti::lower {

/// Slots do not share cache lines: pieces of a slot lie a multiple of so many bytes apart.
inline constexpr std::size_t kStrideUnit = 128;

/// Elements of a slice, at least 1: the longest that fit a staging region of `staging_bytes`, but
/// at least a few of them when there is enough data, so that the stages of the pipeline overlap.
/// The same on every rank: it depends on nothing but the call and agreed options. `longest_chunk`:
/// elements. What executors run and what predictions assume.
std::size_t slice_elements(const Lowered& lowered, std::size_t longest_chunk,
                           std::size_t element_bytes, std::size_t staging_bytes);

}  // namespace tutti::lower
