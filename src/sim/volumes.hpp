// How many bytes a step moves in each slice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/ir/schedule.hpp"

namespace tutti::sim {

/// How much data a call moves: `count` elements per block (NCCL's count argument).
struct Amount {
  std::size_t count = 0;
  std::size_t element_bytes = 1;
};

/// Value that refers to the schedule, which must outlive it.
class Volumes {
 public:
  /// Cuts every chunk into slices of `slice_bytes`, rounded down to elements, but at least one
  /// element. The last slices of a shorter chunk are empty. 0: one slice.
  Volumes(const ir::Schedule& schedule, const Amount& amount, std::size_t slice_bytes);

  [[nodiscard]] std::uint64_t slices() const { return slices_; }
  /// Bytes of slice `slice` of `chunks` on `rank`.
  [[nodiscard]] std::uint64_t bytes(Rank rank, const ir::ChunkSet& chunks,
                                    std::uint32_t slice) const;

 private:
  const ir::Schedule* schedule_;
  std::uint64_t slice_bytes_ = 0;
  std::uint64_t slices_ = 1;
  std::vector<std::uint64_t> chunk_bytes_;  // by index within the block
};

}  // namespace tutti::sim
