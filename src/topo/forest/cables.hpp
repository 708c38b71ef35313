// Says which links of a topology the edges of a forest use.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "src/topo/forest/from_topology.hpp"
#include "src/topo/forest/splitting.hpp"
#include "src/topo/model/topology.hpp"
#include "tutti/error.hpp"

namespace tutti::topo::forest {

/// A forest counts links between the same two nodes as one (network.hpp). Here each way gets one of
/// these cables: the one that is then the least loaded for its bandwidth. Ways are not cut, so
/// cables are loaded as evenly as the weights of the ways allow, best if heavy ones come first.
class Cables {
 public:
  /// The topology and the network made of it must outlive this.
  Cables(const Topology& topology, const NotedNetwork& network);

  /// The links of a way in order, and counts its weight as load on them. kInternal where the
  /// topology has no link that the way takes.
  Result<std::vector<LinkId>> lay(const Route& route);

 private:
  struct Cable {
    LinkId link = 0;
    double bandwidth = 0;
    double load = 0;
  };
  const NotedNetwork& network_;
  std::map<std::pair<NodeId, NodeId>, std::vector<Cable>> cables_;
};

}  // namespace tutti::topo::forest
