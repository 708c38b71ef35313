// Maps chunks to elements, once the element count is known.
//
// A block of `count` elements is split evenly into `chunks_per_block` chunks, in units of
// `kUnitBytes`. So chunks begin at cache lines if the block has enough of them. With fewer units
// than chunks, the unit is one element. Sizes differ by at most one unit. They may be zero: the
// steps of an empty chunk remain and move nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/ir/schedule.hpp"

namespace tutti::ir {

struct ElementRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  [[nodiscard]] std::size_t size() const { return end - begin; }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

class Chunking {
 public:
  /// `count`: elements of one block (NCCL's count argument). `element_bytes` is at least 1.
  Chunking(std::size_t count, std::size_t element_bytes, std::uint32_t chunks_per_block);

  /// Elements of chunk `chunk` of an input or output buffer, counted from the start of the buffer.
  [[nodiscard]] ElementRange elements(std::uint32_t chunk) const;
  /// Number of elements in chunk `chunk`, and in scratch chunks of its length.
  [[nodiscard]] std::size_t size(std::uint32_t chunk) const { return elements(chunk).size(); }
  [[nodiscard]] std::size_t max_size() const { return max_size_; }

  static constexpr std::size_t kUnitBytes = 64;

 private:
  std::size_t count_;
  std::size_t unit_;  // elements
  std::uint32_t chunks_per_block_;
  std::size_t max_size_ = 0;
};

}  // namespace tutti::ir
