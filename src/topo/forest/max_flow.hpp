// The most that can flow from one vertex to another, and the cut that limits it.
//
// Source: Dinic, "Algorithm for solution of a problem of maximum flow in networks with power
// estimation" (1970). Distances are counted from the sink: the questions asked here end near the
// sink, at links from vertices that the source feeds directly, so a search from there sees little
// of the graph.
#pragma once

#include <cstdint>
#include <vector>

#include "src/topo/forest/network.hpp"

namespace tutti::topo::forest {

/// A directed graph with capacities. Not thread-safe: max_flow() uses memory that the graph keeps.
class FlowGraph {
 public:
  using Arc = std::uint32_t;
  /// More than any limit of max_flow(). Such arcs are never part of a smallest cut.
  static constexpr std::int64_t kUnbounded = std::int64_t{1} << 60U;

  explicit FlowGraph(std::size_t vertices) : arcs_of_(vertices) {}

  Vertex add_vertex();
  /// Expects a capacity of 0 to kUnbounded.
  Arc add_arc(Vertex from, Vertex to, std::int64_t capacity);
  void set_capacity(Arc arc, std::int64_t capacity) { capacity_[arc] = capacity; }
  [[nodiscard]] std::int64_t capacity(Arc arc) const { return capacity_[arc]; }
  [[nodiscard]] std::size_t vertices() const { return arcs_of_.size(); }
  /// Calls visit(to, capacity) for each arc that leaves `from`.
  template <class Visit>
  void for_each_arc(Vertex from, Visit visit) const {
    for (const Arc arc : arcs_of_[from]) {
      if (arc % 2 == 0) visit(head_[arc], capacity_[arc]);
    }
  }

  /// The smaller of `limit` and the most that flows from `source` to `sink`, two different
  /// vertices. Starts anew each time; capacities stay.
  std::int64_t max_flow(Vertex source, Vertex sink, std::int64_t limit);

  /// After a max_flow() that stayed below its limit: whether v is on the sink's side of the
  /// smallest cut. Of several such cuts it is the one with the fewest vertices there.
  [[nodiscard]] bool on_sink_side(Vertex v) const { return distance_[v] != kFar; }

 private:
  static constexpr std::uint32_t kFar = ~std::uint32_t{0};

  bool find_distances(Vertex source, Vertex sink);
  std::int64_t push(Vertex from, Vertex sink, std::int64_t amount);

  // Arc 2i and its reverse 2i + 1 stand side by side; what one loses, the other gains.
  std::vector<Vertex> head_;
  std::vector<std::int64_t> capacity_, residual_;
  std::vector<std::vector<Arc>> arcs_of_;  // that leave a vertex, reverse arcs among them
  std::vector<std::uint32_t> distance_;    // to the sink
  std::vector<std::uint32_t> tried_;       // arcs of a vertex that lead nowhere any more
  std::vector<Vertex> queue_;
};

}  // namespace tutti::topo::forest
