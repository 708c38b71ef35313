// Makes the network of a job from a topology and the places of its ranks.
#pragma once

#include <string>
#include <vector>

#include "src/topo/forest/network.hpp"
#include "src/topo/model/topology.hpp"
#include "tutti/error.hpp"

namespace tutti::topo::forest {

/// A network, and what had to be assumed to get it, a sentence each.
struct NotedNetwork {
  Network network;
  std::vector<NodeId> node_of;  ///< of each vertex: the topology's node that it stands for
  std::vector<std::string> assumptions;
};

/// Compute nodes are the ranks, in their order; CPUs without a rank, PCI switches, NVSwitches, NICs
/// and network switches forward. GPUs without a rank are left out: nobody runs there who could pass
/// data on. Ranks that share a node hang on it as on a switch, by links that never limit them.
/// Bandwidths are counted in MB/s and rounded down; switches are brought into balance (balanced()).
///
/// Errors are those of check() for placements and for networks: kInvalidArgument where two ranks
/// cannot reach each other.
Result<NotedNetwork> network_of(const Topology& topology, const Placement& placement);

}  // namespace tutti::topo::forest
