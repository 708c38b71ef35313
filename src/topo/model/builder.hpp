// Builds a topology in code, part by part.
#pragma once

#include <string>
#include <utility>

#include "src/topo/model/bandwidths.hpp"
#include "src/topo/model/topology.hpp"

namespace tutti::topo {

/// Collects parts; nothing is checked before create().
class Builder {
 public:
  HostId host(std::string name) {
    parts_.hosts.push_back({std::move(name), {}});
    return static_cast<HostId>(parts_.hosts.size() - 1);
  }
  NodeId node(NodeKind kind, HostId host, std::string name) {
    parts_.nodes.push_back({kind, host, std::move(name), {}});
    return static_cast<NodeId>(parts_.nodes.size() - 1);
  }

  /// Keys of a node come in ascending order.
  void say(NodeId node, std::string key, std::string value) {
    parts_.nodes[node].attributes.push_back({std::move(key), std::move(value)});
  }

  /// Two links, one in each direction, of equal bandwidth (GB/s) and latency (microseconds).
  void join(NodeId a, NodeId b, LinkKind kind, double bandwidth, double latency) {
    parts_.links.push_back({a, b, kind, bandwidth, latency});
    parts_.links.push_back({b, a, kind, bandwidth, latency});
  }
  /// The same with the latency assumed for links of that kind.
  void join(NodeId a, NodeId b, LinkKind kind, double bandwidth) {
    join(a, b, kind, bandwidth, assumed_latency(kind));
  }

  Result<Topology> create() && { return Topology::create(std::move(parts_)); }

 private:
  Parts parts_;
};

}  // namespace tutti::topo
