#include "src/sim/volumes.hpp"

#include <algorithm>

#include "src/ir/cells.hpp"
#include "src/ir/chunking.hpp"

namespace tutti::sim {

Volumes::Volumes(const ir::Schedule& schedule, const Amount& amount, std::size_t slice_bytes)
    : schedule_(&schedule) {
  const ir::Chunking chunking(amount.count, amount.element_bytes, schedule.chunks_per_block);
  for (std::uint32_t chunk = 0; chunk < schedule.chunks_per_block; ++chunk)
    chunk_bytes_.push_back(chunking.size(chunk) * amount.element_bytes);
  const std::uint64_t longest = chunking.max_size() * amount.element_bytes;
  slice_bytes_ = std::max<std::uint64_t>(1, longest);
  if (slice_bytes == 0) return;
  const std::size_t elements = std::max<std::size_t>(1, slice_bytes / amount.element_bytes);
  slice_bytes_ = std::min<std::uint64_t>(elements * amount.element_bytes, slice_bytes_);
  slices_ = std::max<std::uint64_t>(1, (longest + slice_bytes_ - 1) / slice_bytes_);
}

std::uint64_t Volumes::bytes(Rank rank, const ir::ChunkSet& chunks, std::uint32_t slice) const {
  const std::uint64_t before = slice * slice_bytes_;
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < chunks.count; ++i) {
    const std::uint64_t chunk =
        chunk_bytes_[ir::index_in_block(*schedule_, rank, chunks.space, chunks.at(i))];
    sum += std::min(slice_bytes_, chunk - std::min(chunk, before));
  }
  return sum;
}

}  // namespace tutti::sim
