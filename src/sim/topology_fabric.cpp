#include "src/sim/topology_fabric.hpp"

#include <utility>

#include <fmt/format.h>

#include "src/base/result.hpp"

namespace tutti::sim {

Result<TopologyFabric> TopologyFabric::create(const topo::Topology& topology,
                                              topo::Placement placement) {
  TUTTI_TRY(topo::check(placement, topology));
  TUTTI_ASSIGN(TopologyTrees trees, TopologyTrees::create(topology));
  return TopologyFabric(topology, std::move(placement), std::move(trees));
}

TopologyFabric::TopologyFabric(const topo::Topology& topology, topo::Placement placement,
                               TopologyTrees trees)
    : placement_(std::move(placement)), finder_(topology), trees_(std::move(trees)) {
  for (const topo::Link& link : topology.links())
    links_.push_back(
        {link.bandwidth, link.latency,
         fmt::format("{} -> {}", full_name(topology, link.from), full_name(topology, link.to))});
}

Result<std::vector<LinkId>> TopologyFabric::path(Rank from, Rank to, Lane /*lane*/) {
  TUTTI_CHECK(from >= 0 && to >= 0 && from < ranks() && to < ranks(),
              "path from rank {} to {} of {}", from, to, ranks());
  const topo::NodeId source = placement_.ranks[static_cast<std::size_t>(from)];
  const topo::NodeId destination = placement_.ranks[static_cast<std::size_t>(to)];
  topo::Path path = finder_.find(source, destination);
  if (path.kind == topo::PathKind::kDisconnected)
    return make_error(
        Code::kInvalidArgument,
        "nothing joins rank {} on {} to rank {} on {}; a topology with a path between "
        "all ranks that exchange messages was expected",
        from, full_name(finder_.topology(), source), to,
        full_name(finder_.topology(), destination));
  return std::move(path.links);
}

}  // namespace tutti::sim
