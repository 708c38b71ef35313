#include "algorithms/nodes.hpp"

#include <algorithm>

namespace tutti::algorithms {

Nodes::Nodes(const ir::Layout& layout) : ranks_(ir::nodes_of(layout)) {
  node_.resize(layout.cells.size());
  local_.resize(layout.cells.size());
  for (Rank node = 0; node < count(); ++node) {
    rails_ = std::max(rails_, size(node));
    for (Rank i = 0; i < size(node); ++i) {
      const auto rank = static_cast<std::size_t>(ranks(node)[static_cast<std::size_t>(i)]);
      node_[rank] = node;
      local_[rank] = i;
    }
  }
  for (Rank rail = 0; rail < rails_; ++rail) {
    std::vector<Rank>& before = before_.emplace_back(1, 0);
    for (Rank node = 0; node < count(); ++node)
      before.push_back(before.back() + (has(node, rail) ? 1 : 0));
  }
}

Rank Nodes::smallest() const {
  Rank least = rails_;
  for (Rank node = 0; node < count(); ++node) least = std::min(least, size(node));
  return least;
}

std::vector<Rank> Nodes::rails_at(Rank node, Rank local) const {
  std::vector<Rank> rails;
  for (Rank rail = local; rail < rails_; rail += size(node)) rails.push_back(rail);
  return rails;
}

std::vector<Rank> Nodes::along(Rank rail) const {
  std::vector<Rank> ranks;
  ranks.reserve(ranks_.size());
  for (Rank node = 0; node < count(); ++node) ranks.push_back(at(node, rail));
  return ranks;
}

bool has_two_levels(const ir::Request& request) {
  if (request.layout.empty() || !ir::check(request.layout, request.ranks)) return false;
  const auto nodes = ir::nodes_of(request.layout).size();
  return nodes > 1 && nodes < static_cast<std::size_t>(request.ranks);
}

}  // namespace tutti::algorithms
