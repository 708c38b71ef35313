#include "algorithms/two_levels.hpp"

#include <utility>
#include <vector>

#include "src/base/result.hpp"

namespace tutti::algorithms {

Status TwoLevels::inside(Rank node, const ir::Algorithm& leaf, ir::Request request,
                         std::function<ir::Region(Rank, std::uint32_t)> input,
                         std::function<ir::Region(Rank, std::uint32_t)> output) {
  request.ranks = nodes_.size(node);
  TUTTI_ASSIGN(const ir::Schedule schedule, leaf.generate(request));
  TUTTI_CHECK(schedule.chunks_per_block == 1, "{} has {} chunks per block inside a node", leaf.name,
              schedule.chunks_per_block);
  return ir::embed(schedule, {nodes_.ranks(node), std::move(input), std::move(output)}, whole_);
}

ir::Region TwoLevels::scratch(Rank rank, const ir::Region& like) {
  ir::Region region;
  for (const ir::ChunkSet& set : like) region.push_back(whole_.rank(rank).scratch(set));
  return region;
}

ir::Region TwoLevels::blocks_of(Rank node, ir::Space space) const {
  std::vector<std::uint32_t> blocks;
  for (const Rank rank : nodes_.ranks(node)) blocks.push_back(static_cast<std::uint32_t>(rank));
  return ir::region_of(space, blocks);
}

void append(ir::Region& region, const ir::Region& more) {
  region.insert(region.end(), more.begin(), more.end());
}

ir::Region nth(const ir::Region& region, std::uint32_t number) {
  for (const ir::ChunkSet& set : region) {
    if (number < set.count) return {{set.space, set.at(number), 1, 1}};
    number -= set.count;
  }
  return {};
}

}  // namespace tutti::algorithms
