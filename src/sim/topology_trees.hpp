// Finds trees of switches that add and copy (src/topo/model/aggregation.hpp) for groups of ranks on
// a topology.
//
// A member's way to the root leads first through its own host, over PCI switches, CPUs and a NIC,
// to the nearest switch that adds; from there over such switches alone. Each link carries one sum
// then, so no two members may share a link before the first switch that adds. The root has the
// fewest links to the farthest member; of several such switches, it is the one through which the
// fewest groups lead. So groups spread over switches, and over parallel cables.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/ir/schedule.hpp"
#include "src/sim/fabric.hpp"
#include "src/topo/model/aggregation.hpp"
#include "src/topo/model/topology.hpp"
#include "tutti/error.hpp"

namespace tutti::sim {

/// Immutable.
class TopologyTrees {
 public:
  /// The topology must outlive this object. kInvalidArgument if an attribute is wrong.
  static Result<TopologyTrees> create(const topo::Topology& topology);

  /// Of groups at the same time; see Fabric::trees. `places`: the node of each rank.
  [[nodiscard]] Result<std::vector<NetworkTree>> find(std::span<const ir::Group> groups,
                                                      std::span<const topo::NodeId> places) const;

 private:
  explicit TopologyTrees(const topo::Topology& topology) : topology_(&topology) {}

  const topo::Topology* topology_;
  std::vector<std::optional<topo::Aggregation>> aggregations_;  // by node
};

}  // namespace tutti::sim
