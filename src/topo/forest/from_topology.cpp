#include "src/topo/forest/from_topology.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/result.hpp"

namespace tutti::topo::forest {
namespace {

constexpr double kUnit = 0.001;  // GB/s
constexpr Vertex kLeftOut = ~Vertex{0};

class Conversion {
 public:
  Conversion(const Topology& topology, const Placement& placement)
      : topology_(topology),
        placement_(placement),
        ranks_at_(topology.nodes().size(), 0),
        vertex_of_(topology.nodes().size(), kLeftOut) {
    for (const NodeId node : placement.ranks) ++ranks_at_[node];
  }

  Result<NotedNetwork> run() {
    result_.network.unit = kUnit;
    add_ranks();
    add_switches();
    TUTTI_TRY(add_links());
    add_local_links();
    TUTTI_TRY(check(result_.network));
    if (!check_balance(result_.network)) {
      result_.network = balanced(result_.network);
      note(
          "Links at switches were taken to be as fast as the slower of their two directions, "
          "because more would lead into some switch than out of it.");
    }
    TUTTI_TRY(check(result_.network));
    return std::move(result_);
  }

 private:
  void note(std::string sentence) { result_.assumptions.push_back(std::move(sentence)); }

  [[nodiscard]] std::string name_of_node(NodeId id) const { return full_name(topology_, id); }

  Vertex add(NodeId node, std::string name, bool computes) {
    result_.network.nodes.push_back({std::move(name), computes});
    result_.node_of.push_back(node);
    return static_cast<Vertex>(result_.network.nodes.size() - 1);
  }

  /// Compute nodes come first, so that rank r is vertex r.
  void add_ranks() {
    for (std::size_t rank = 0; rank < placement_.ranks.size(); ++rank) {
      const NodeId node = placement_.ranks[rank];
      const Vertex vertex = add(node, fmt::format("rank {} ({})", rank, name_of_node(node)), true);
      if (ranks_at_[node] == 1) vertex_of_[node] = vertex;
    }
  }

  void add_switches() {
    std::size_t idle = 0;
    for (NodeId node = 0; node < topology_.nodes().size(); ++node) {
      const bool is_gpu = topology_.node(node).kind == NodeKind::kGpu;
      if (ranks_at_[node] == 0 && is_gpu) ++idle;
      if (ranks_at_[node] == 1 || (ranks_at_[node] == 0 && is_gpu)) continue;
      vertex_of_[node] = add(node, name_of_node(node), false);
    }
    if (idle > 0) note(fmt::format("{} GPUs without a rank pass no data on.", idle));
  }

  Status add_links() {
    bool rounded = false;
    for (const Link& link : topology_.links()) {
      const Vertex from = vertex_of_[link.from];
      const Vertex to = vertex_of_[link.to];
      if (from == kLeftOut || to == kLeftOut) continue;
      const double units = link.bandwidth / kUnit;
      if (units > static_cast<double>(kMostTotalCapacity)) {
        return make_error(Code::kInvalidArgument,
                          "the link from {} to {} has {:g} GB/s: at most "
                          "{:g} are accepted",
                          name_of_node(link.from), name_of_node(link.to), link.bandwidth,
                          static_cast<double>(kMostTotalCapacity) * kUnit);
      }
      // A decimal fraction of GB/s is nearly whole in MB/s.
      const double nearest = std::round(units);
      const bool whole = std::abs(units - nearest) <= 1e-9 * units;
      rounded = rounded || !whole;
      result_.network.links.push_back(
          {from, to, static_cast<std::int64_t>(whole ? nearest : std::floor(units))});
    }
    if (rounded) note("Bandwidths were rounded down to whole MB/s.");
    return ok_status();
  }

  /// Ranks that share a node must not be limited by how they are joined to it. If r of the job's n
  /// ranks are elsewhere and capacity B leads to the node, then a unit of data from each takes r/B
  /// at least. A cut through a link of capacity C takes (n-1)/C at most, which is no more with
  /// C = B * ceil((n-1)/r).
  void add_local_links() {
    std::vector<std::int64_t> in(result_.network.nodes.size(), 0);
    std::vector<std::int64_t> out(result_.network.nodes.size(), 0);
    for (const Network::Link& link : result_.network.links) {
      out[link.from] += link.capacity;
      in[link.to] += link.capacity;
    }
    const auto ranks = static_cast<std::int64_t>(placement_.ranks.size());
    bool shared = false;
    for (std::size_t rank = 0; rank < placement_.ranks.size(); ++rank) {
      const NodeId node = placement_.ranks[rank];
      if (ranks_at_[node] == 1) continue;
      shared = true;
      const Vertex at = vertex_of_[node];
      const std::int64_t elsewhere = std::max<std::int64_t>(1, ranks - ranks_at_[node]);
      const std::int64_t enough =
          std::max<std::int64_t>({1, in[at], out[at]}) * ((ranks - 1 + elsewhere - 1) / elsewhere);
      result_.network.links.push_back({static_cast<Vertex>(rank), at, enough});
      result_.network.links.push_back({at, static_cast<Vertex>(rank), enough});
    }
    if (!shared) return;
    note("Ranks that share a node reach each other without limit.");
    if (ranks_at_[placement_.ranks[0]] == ranks) {
      note("All ranks share one node, so nothing limits them and times mean nothing.");
    }
  }

  const Topology& topology_;
  const Placement& placement_;
  std::vector<std::int64_t> ranks_at_;  // of each node
  std::vector<Vertex> vertex_of_;       // of each node
  NotedNetwork result_;
};

}  // namespace

Result<NotedNetwork> network_of(const Topology& topology, const Placement& placement) {
  TUTTI_TRY(topo::check(placement, topology));
  return Conversion(topology, placement).run();
}

}  // namespace tutti::topo::forest
