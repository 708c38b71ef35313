// Measures fabrics for tests: degrees, distances, throughput.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "src/topo/model/topology.hpp"

namespace tutti::topo {

/// Switches and routers: the nodes without a host whose name has `part` in it.
inline std::vector<NodeId> switches_named(const Topology& topology, std::string_view part = "") {
  std::vector<NodeId> found;
  for (const NodeId id : topology.nodes_of(kNoHost))
    if (topology.node(id).name.find(part) != std::string::npos) found.push_back(id);
  return found;
}

inline std::vector<NodeId> nodes_of_kind(const Topology& topology, NodeKind kind) {
  std::vector<NodeId> found;
  for (NodeId id = 0; id < topology.nodes().size(); ++id)
    if (topology.node(id).kind == kind) found.push_back(id);
  return found;
}

/// Cables of a node that lead to nodes without a host.
inline std::size_t cables_to_switches(const Topology& topology, NodeId node) {
  return static_cast<std::size_t>(std::ranges::count_if(
      topology.links_from(node),
      [&](LinkId link) { return topology.node(topology.link(link).to).host == kNoHost; }));
}

/// Links from `from` to every node over nodes without a host alone; -1 where there is no way.
inline std::vector<int> distances(const Topology& topology, NodeId from) {
  std::vector<int> distance(topology.nodes().size(), -1);
  distance[from] = 0;
  std::vector<NodeId> reached = {from};
  for (std::size_t i = 0; i < reached.size(); ++i) {
    for (const LinkId id : topology.links_from(reached[i])) {
      const NodeId next = topology.link(id).to;
      if (distance[next] >= 0 || topology.node(next).host != kNoHost) continue;
      distance[next] = distance[reached[i]] + 1;
      reached.push_back(next);
    }
  }
  return distance;
}

/// The largest distance between any two of `nodes`; -1 where some two have none.
inline int diameter(const Topology& topology, const std::vector<NodeId>& nodes) {
  int largest = 0;
  for (const NodeId a : nodes) {
    const auto distance = distances(topology, a);
    for (const NodeId b : nodes) {
      if (distance[b] < 0) return -1;
      largest = std::max(largest, distance[b]);
    }
  }
  return largest;
}

/// How many GB/s can flow from the hosts of one side to those of the other over network links
/// (Edmonds and Karp, over pairs of nodes; every host is as wide as all its NICs).
class Bisection {
 public:
  Bisection(const Topology& topology, const std::vector<bool>& on_left) {
    const auto nodes = static_cast<NodeId>(topology.nodes().size());
    source_ = nodes;
    sink_ = nodes + 1;
    next_.resize(nodes + 2);
    for (const Link& link : topology.links())
      if (link.kind == LinkKind::kNetwork) add(link.from, link.to, link.bandwidth);
    for (const NodeId nic : nodes_of_kind(topology, NodeKind::kNic)) {
      const double enough = 1e9;
      if (on_left[topology.node(nic).host])
        add(source_, nic, enough);
      else
        add(nic, sink_, enough);
    }
    while (augment()) {
    }
  }

  [[nodiscard]] double flow() const { return flow_; }

 private:
  void add(NodeId from, NodeId to, double capacity) {
    for (const auto& [a, b] : {std::pair(from, to), std::pair(to, from)})
      if (left_.try_emplace({a, b}, 0).second) next_[a].push_back(b);
    left_[{from, to}] += capacity;
  }

  bool augment() {
    constexpr double kNothing = 1e-6;
    std::vector<NodeId> before(next_.size(), source_);
    std::vector<bool> seen(next_.size());
    std::vector<NodeId> reached = {source_};
    seen[source_] = true;
    for (std::size_t i = 0; i < reached.size() && !seen[sink_]; ++i) {
      for (const NodeId next : next_[reached[i]]) {
        if (seen[next] || left_[{reached[i], next}] < kNothing) continue;
        seen[next] = true;
        before[next] = reached[i];
        reached.push_back(next);
      }
    }
    if (!seen[sink_]) return false;
    double most = std::numeric_limits<double>::max();
    for (NodeId at = sink_; at != source_; at = before[at])
      most = std::min(most, left_[{before[at], at}]);
    for (NodeId at = sink_; at != source_; at = before[at]) {
      left_[{before[at], at}] -= most;
      left_[{at, before[at]}] += most;
    }
    flow_ += most;
    return true;
  }

  NodeId source_ = 0, sink_ = 0;
  std::vector<std::vector<NodeId>> next_;
  std::map<std::pair<NodeId, NodeId>, double> left_;  // capacity, by ends
  double flow_ = 0;
};

}  // namespace tutti::topo
