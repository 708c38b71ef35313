// A fabric made from a topology and the placement of the ranks in it.
#pragma once

#include <span>
#include <vector>

#include "src/sim/fabric.hpp"
#include "src/sim/topology_trees.hpp"
#include "src/topo/model/paths.hpp"
#include "src/topo/model/topology.hpp"
#include "tutti/error.hpp"

namespace tutti::sim {

/// Messages take the best path (src/topo/model/paths.hpp). All lanes between two ranks take the
/// same one. Paths are computed on demand. Link numbers are the topology's. Groups have trees of
/// the switches that add (src/sim/topology_trees.hpp).
class TopologyFabric final : public Fabric {
 public:
  /// The topology must outlive the fabric. Fails as topo::check(placement, topology) and
  /// TopologyTrees::create do.
  static Result<TopologyFabric> create(const topo::Topology& topology, topo::Placement placement);

  [[nodiscard]] std::int32_t ranks() const override {
    return static_cast<std::int32_t>(placement_.ranks.size());
  }
  [[nodiscard]] std::span<const Link> links() const override { return links_; }
  [[nodiscard]] Result<std::vector<LinkId>> path(Rank from, Rank to, Lane lane) override;
  [[nodiscard]] Result<std::vector<NetworkTree>> trees(std::span<const ir::Group> groups) override {
    return trees_.find(groups, placement_.ranks);
  }

 private:
  TopologyFabric(const topo::Topology& topology, topo::Placement placement, TopologyTrees trees);

  topo::Placement placement_;
  topo::PathFinder finder_;
  TopologyTrees trees_;
  std::vector<Link> links_;
};

}  // namespace tutti::sim
