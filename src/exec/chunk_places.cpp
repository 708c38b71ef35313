#include "src/exec/chunk_places.hpp"

#include <algorithm>

#include "src/ir/chunking.hpp"

namespace tutti::exec {

using ir::Space;

BufferElements buffer_elements(const ir::Request& request, const Volume& volume, Rank rank) {
  if (volume.blocks) {
    const std::size_t own = volume.blocks->counts[static_cast<std::size_t>(rank)];
    const bool gathers = request.collective == Collective::kAllGather;
    return gathers ? BufferElements{own, volume.count} : BufferElements{volume.count, own};
  }
  const ir::BlockCounts blocks = ir::block_counts(request, rank);
  return {static_cast<std::size_t>(blocks.input) * volume.count,
          static_cast<std::size_t>(blocks.output) * volume.count};
}

ChunkPlaces::ChunkPlaces(const lower::Lowered& lowered, const Volume& volume, Rank self)
    : request_(lowered.request),
      chunks_per_block_(lowered.chunks_per_block),
      uneven_(volume.blocks != nullptr) {
  if (uneven_)
    place_uneven(volume, self);
  else
    place_even(volume);
  longest_ = *std::ranges::max_element(sizes_);
  if (stretches_.empty())
    stretches_.push_back({0, 0, buffer_elements(request_, volume, self).input});
}

void ChunkPlaces::place_even(const Volume& volume) {
  const ir::Chunking chunking(volume.count, size_of(volume.type), chunks_per_block_);
  const auto blocks = static_cast<std::uint32_t>(ir::largest_block_count(request_));
  for (std::uint32_t chunk = 0; chunk < blocks * chunks_per_block_; ++chunk) {
    const ir::ElementRange range = chunking.elements(chunk);
    sizes_.push_back(range.size());
    inputs_.push_back(range.begin);
  }
  outputs_ = inputs_;
}

void ChunkPlaces::place_uneven(const Volume& volume, Rank self) {
  const ir::Blocks& blocks = *volume.blocks;
  std::vector<std::size_t> with_gaps, of_own_block;
  std::size_t before = 0;
  for (std::size_t block = 0; block < blocks.counts.size(); ++block) {
    const ir::Chunking chunking(blocks.counts[block], size_of(volume.type), chunks_per_block_);
    for (std::uint32_t chunk = 0; chunk < chunks_per_block_; ++chunk) {
      const ir::ElementRange range = chunking.elements(chunk);
      sizes_.push_back(range.size());
      packed_.push_back(before + range.begin);
      with_gaps.push_back(blocks.starts[block] + range.begin);
      if (block == static_cast<std::size_t>(self)) of_own_block.push_back(range.begin);
    }
    before += blocks.counts[block];
  }
  const bool gathers = request_.collective == Collective::kAllGather;
  inputs_ = gathers ? of_own_block : with_gaps;
  outputs_ = gathers ? with_gaps : of_own_block;
  if (gathers || blocks.packed()) return;
  for (std::size_t block = 0, to = 0; block < blocks.counts.size(); to += blocks.counts[block++])
    stretches_.push_back({blocks.starts[block], to, blocks.counts[block]});
}

std::size_t ChunkPlaces::in_packed(Space space, Rank owner, std::uint32_t chunk) const {
  if (!uneven_) return inputs_[chunk];
  const std::uint32_t of_all = ir::chunk_of_all(request_, chunks_per_block_, owner, space, chunk);
  const bool is_own_block = ir::is_own_block(request_.collective, space);
  const auto first = static_cast<std::uint32_t>(owner) * chunks_per_block_;
  return packed_[of_all] - (is_own_block ? packed_[first] : 0);
}

}  // namespace tutti::exec
