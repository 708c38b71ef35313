#include "src/topo/forest/shortage.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace tutti::topo::forest {
namespace {

/// Goes from sink to sink. A cut that a served sink is beyond is known to be wide enough, so the
/// source may feed served sinks without bound while the others are asked about. Most of those then
/// need no flow: what arrives on direct ways is enough.
class Round {
 public:
  Round(FlowGraph graph, Vertex source, std::span<const Vertex> sinks, std::int64_t needed)
      : graph_(std::move(graph)),
        source_(source),
        needed_(needed),
        waiting_(sinks.begin(), sinks.end()),
        is_sink_(graph_.vertices(), false),
        direct_(graph_.vertices(), 0) {
    for (const Vertex sink : sinks) is_sink_[sink] = true;
    std::vector<bool> seen(graph_.vertices(), false);
    graph_.for_each_arc(source_, [&](Vertex to, std::int64_t capacity) {
      if (is_sink_[to]) return add_direct(to, capacity);
      if (!seen[to]) add_two_steps(to, capacity);
      seen[to] = true;
    });
  }

  std::optional<Shortage> run() {
    while (!waiting_.empty()) {
      const Vertex sink = take_best_fed();
      if (direct_[sink] < needed_) {
        const std::int64_t flow = graph_.max_flow(source_, sink, needed_);
        if (flow < needed_) return shortage(needed_ - flow);
      }
      serve(sink);
    }
    return std::nullopt;
  }

 private:
  void add_direct(Vertex to, std::int64_t amount) {
    direct_[to] = std::min(needed_, direct_[to] + std::min(needed_, amount));
  }

  /// What `capacity` into `via` brings to the vertices after it, counting one arc to each.
  void add_two_steps(Vertex via, std::int64_t capacity) {
    std::vector<bool> seen(graph_.vertices(), false);
    graph_.for_each_arc(via, [&](Vertex to, std::int64_t rest) {
      if (!seen[to]) add_direct(to, std::min(capacity, rest));
      seen[to] = true;
    });
  }

  Vertex take_best_fed() {
    const auto best = std::max_element(waiting_.begin(), waiting_.end(),
                                       [&](Vertex a, Vertex b) { return direct_[a] < direct_[b]; });
    const Vertex sink = *best;
    *best = waiting_.back();
    waiting_.pop_back();
    return sink;
  }

  void serve(Vertex sink) {
    graph_.add_arc(source_, sink, FlowGraph::kUnbounded);
    graph_.for_each_arc(sink, [&](Vertex to, std::int64_t capacity) { add_direct(to, capacity); });
  }

  [[nodiscard]] Shortage shortage(std::int64_t missing) const {
    Shortage found{VertexSet(graph_.vertices()), missing};
    for (Vertex v = 0; v < graph_.vertices(); ++v) {
      if (graph_.on_sink_side(v)) found.outside.insert(v);
    }
    return found;
  }

  FlowGraph graph_;
  Vertex source_;
  std::int64_t needed_;
  std::vector<Vertex> waiting_;
  std::vector<bool> is_sink_;
  std::vector<std::int64_t> direct_;  // a lower bound of what reaches a vertex, at most needed_
};

}  // namespace

std::optional<Shortage> find_shortage(FlowGraph graph, Vertex source, std::span<const Vertex> sinks,
                                      std::int64_t needed) {
  return Round(std::move(graph), source, sinks, needed).run();
}

}  // namespace tutti::topo::forest
