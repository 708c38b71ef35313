// Which part of a chunk belongs to which block.
//
// Every block runs the whole program on its own share of every chunk. Shares follow from the length
// of the chunk alone, so blocks with the same index on all ranks work on the same elements, and
// never need those of another index.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/device/macros.hpp"

namespace tutti::device {

/// Shares begin a multiple of this behind the begin of their chunk, as chunks do in their buffer
/// where there is enough to share (ir::Chunking), so that vector accesses stay aligned.
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

/// No share of such a chunk is longer.
TUTTI_DEVICE constexpr std::uint64_t longest_share(std::uint64_t elements,
                                                   std::uint64_t element_bytes,
                                                   std::uint32_t count) {
  const std::uint64_t unit = kShareUnitBytes / element_bytes;
  const std::uint64_t units = (elements + unit - 1) / unit;
  const std::uint64_t longest = (units + count - 1) / count * unit;
  return longest < elements ? longest : elements;
}

/// Part `slice` of a range that is cut every `slice_elements`; empty behind its end.
TUTTI_DEVICE constexpr Range slice_of(Range range, std::uint64_t slice,
                                      std::uint64_t slice_elements) {
  const std::uint64_t begin = range.begin + slice * slice_elements;
  if (begin >= range.end) return {range.end, range.end};
  const std::uint64_t left = range.end - begin;
  return {begin, begin + (left < slice_elements ? left : slice_elements)};
}

}  // namespace tutti::device
