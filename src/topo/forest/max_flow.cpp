#include "src/topo/forest/max_flow.hpp"

#include <algorithm>

namespace tutti::topo::forest {

Vertex FlowGraph::add_vertex() {
  arcs_of_.emplace_back();
  return static_cast<Vertex>(arcs_of_.size() - 1);
}

FlowGraph::Arc FlowGraph::add_arc(Vertex from, Vertex to, std::int64_t capacity) {
  const auto arc = static_cast<Arc>(head_.size());
  head_.push_back(to);
  head_.push_back(from);
  capacity_.push_back(capacity);
  capacity_.push_back(0);
  arcs_of_[from].push_back(arc);
  arcs_of_[to].push_back(arc + 1);
  return arc;
}

std::int64_t FlowGraph::max_flow(Vertex source, Vertex sink, std::int64_t limit) {
  residual_ = capacity_;
  std::int64_t flow = 0;
  while (flow < limit && find_distances(source, sink)) {
    tried_.assign(arcs_of_.size(), 0);
    flow += push(source, sink, limit - flow);
  }
  return flow;
}

/// Breadth first from the sink against the arcs, until the source's distance is known. False: the
/// source cannot reach the sink, and all that can have a distance.
bool FlowGraph::find_distances(Vertex source, Vertex sink) {
  distance_.assign(arcs_of_.size(), kFar);
  distance_[sink] = 0;
  queue_.assign(1, sink);
  for (std::size_t next = 0; next < queue_.size(); ++next) {
    const Vertex at = queue_[next];
    for (const Arc arc : arcs_of_[at]) {
      const Vertex from = head_[arc];
      if (distance_[from] != kFar || residual_[arc ^ 1U] == 0) continue;
      distance_[from] = distance_[at] + 1;
      if (from == source) return true;
      queue_.push_back(from);
    }
  }
  return false;
}

/// Sends up to `amount` along shortest paths, depth first. As deep as the path is long.
std::int64_t FlowGraph::push(Vertex from, Vertex sink, std::int64_t amount) {
  if (from == sink) return amount;
  std::int64_t sent = 0;
  for (std::uint32_t& i = tried_[from]; i < arcs_of_[from].size(); ++i) {
    const Arc arc = arcs_of_[from][i];
    const Vertex to = head_[arc];
    if (residual_[arc] == 0 || distance_[to] + 1 != distance_[from]) continue;
    const std::int64_t passed = push(to, sink, std::min(amount - sent, residual_[arc]));
    residual_[arc] -= passed;
    residual_[arc ^ 1U] += passed;
    sent += passed;
    if (sent == amount) return sent;  // the arc may have room left: it stays the current one
  }
  return sent;
}

}  // namespace tutti::topo::forest
