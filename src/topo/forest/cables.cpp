#include "src/topo/forest/cables.hpp"

#include <algorithm>

#include "src/base/result.hpp"

namespace tutti::topo::forest {

Cables::Cables(const Topology& topology, const NotedNetwork& network) : network_(network) {
  for (LinkId id = 0; id < topology.links().size(); ++id) {
    const Link& link = topology.link(id);
    cables_[{link.from, link.to}].push_back({id, link.bandwidth, 0});
  }
}

Result<std::vector<LinkId>> Cables::lay(const Route& route) {
  std::vector<LinkId> links;
  const auto weight = static_cast<double>(route.weight);
  for (std::size_t i = 0; i + 1 < route.path.size(); ++i) {
    const NodeId from = network_.node_of[route.path[i]];
    const NodeId to = network_.node_of[route.path[i + 1]];
    if (from == to) continue;  // a rank and the node that it shares with others
    const auto found = cables_.find({from, to});
    TUTTI_CHECK(found != cables_.end(), "a way of the forest leads from node {} to {}", from, to);
    Cable& cable = *std::ranges::min_element(found->second, {}, [&](const Cable& candidate) {
      return (candidate.load + weight) / candidate.bandwidth;
    });
    cable.load += weight;
    links.push_back(cable.link);
  }
  return links;
}

}  // namespace tutti::topo::forest
