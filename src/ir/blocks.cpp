#include "src/ir/blocks.hpp"

#include <numeric>

namespace tutti::ir {

std::size_t Blocks::total() const {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

bool Blocks::packed() const {
  std::size_t next = 0;
  for (std::size_t block = 0; block < counts.size(); ++block) {
    if (counts[block] > 0 && starts[block] != next) return false;
    next += counts[block];
  }
  return true;
}

std::uint32_t chunk_of_all(const Request& request, std::uint32_t chunks_per_block, Rank rank,
                           Space space, std::uint32_t chunk) {
  if (!is_own_block(request.collective, space)) return chunk;
  return static_cast<std::uint32_t>(rank) * chunks_per_block + chunk;
}

}  // namespace tutti::ir
