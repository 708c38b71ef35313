// Which part of a chunk belongs to which block.
//
// Every block runs the whole program on its own share of every chunk. Shares depend on the chunk's
// length only. So blocks with the same index work on the same elements on all ranks, and never need
// elements of another block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/device_macros.hpp"

namespace tutti::device {

/// Shares begin at a multiple of this from the start of their chunk, as large chunks do in their
/// buffer (ir::Chunking). So vector accesses stay aligned.
inline constexpr std::uint64_t kShareUnitBytes = 64;

/// In elements.
struct Range {
  std::uint64_t begin = 0, end = 0;
  TUTTI_DEVICE constexpr std::uint64_t size() const { return end - begin; }
};

/// The share of block `index` of `count` in a chunk of `elements`: a balanced split in units, the
/// last of which may be shorter.
TUTTI_DEVICE constexpr Range share_of(std::uint64_t elements, std::uint64_t element_bytes,
                                      std::uint32_t index, std::uint32_t count) {
  const std::uint64_t unit = kShareUnitBytes / element_bytes;
  const std::uint64_t units = (elements + unit - 1) / unit;
  const std::uint64_t begin = units * index / count * unit;
  const std::uint64_t end = units * (index + 1) / count * unit;
  return {begin < elements ? begin : elements, end < elements ? end : elements};
}

/// The length of the longest share of such a chunk.
TUTTI_DEVICE constexpr std::uint64_t longest_share(std::uint64_t elements,
                                                   std::uint64_t element_bytes,
                                                   std::uint32_t count) {
  const std::uint64_t unit = kShareUnitBytes / element_bytes;
  const std::uint64_t units = (elements + unit - 1) / unit;
  const std::uint64_t longest = (units + count - 1) / count * unit;
  return longest < elements ? longest : elements;
}

/// Part `slice` of a range that is cut every `slice_elements` elements; empty beyond its end.
TUTTI_DEVICE constexpr Range slice_of(Range range, std::uint64_t slice,
                                      std::uint64_t slice_elements) {
  const std::uint64_t begin = range.begin + slice * slice_elements;
  if (begin >= range.end) return {range.end, range.end};
  const std::uint64_t left = range.end - begin;
  return {begin, begin + (left < slice_elements ? left : slice_elements)};
}

}  // namespace tutti::device
