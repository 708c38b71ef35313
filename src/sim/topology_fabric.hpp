// A fabric made from a topology and the placement of the ranks in it.
#pragma once

#include <span>
#include <vector>

#include "src/sim/fabric.hpp"
#include "src/topo/model/paths.hpp"
#include "src/topo/model/topology.hpp"
#include "tutti/error.hpp"

namespace tutti::sim {

/// Messages take the best path (src/topo/model/paths.hpp). All lanes between two ranks take the
/// same one. Paths are computed on demand. Link numbers are the topology's.
class TopologyFabric final : public Fabric {
 public:
  /// The topology must outlive the fabric. Fails as topo::check(placement, topology) does.
  static Result<TopologyFabric> create(const topo::Topology& topology, topo::Placement placement);

  [[nodiscard]] std::int32_t ranks() const override {
    return static_cast<std::int32_t>(placement_.ranks.size());
  }
  [[nodiscard]] std::span<const Link> links() const override { return links_; }
  [[nodiscard]] Result<std::vector<LinkId>> path(Rank from, Rank to, Lane lane) override;

 private:
  TopologyFabric(const topo::Topology& topology, topo::Placement placement);

  topo::Placement placement_;
  topo::PathFinder finder_;
  std::vector<Link> links_;
};

}  // namespace tutti::sim
