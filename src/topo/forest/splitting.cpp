#include "src/topo/forest/splitting.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "src/base/result.hpp"
#include "src/topo/forest/shortage.hpp"
#include "src/topo/forest/vertex_set.hpp"

namespace tutti::topo::forest {
namespace {

/// Capacity of links from -> switch and switch -> to becomes capacity of a link from -> to. With
/// from == to it is given up.
struct Split {
  Vertex via = 0;
  Vertex from = 0;
  Vertex to = 0;
  std::int64_t amount = 0;
};

/// A cut, by the vertices beyond it, and how much capacity it has that the demand does not need.
struct Limit {
  VertexSet outside;
  std::int64_t capacity = 0;
};

/// Whether the cut loses what is split.
bool narrows(const Split& split, const VertexSet& outside) {
  const bool via = outside.contains(split.via);
  return outside.contains(split.from) != via && outside.contains(split.to) != via;
}

/// 1 .. size-1, such that each run of them from the start is spread evenly: size/2, size/4, ...
std::vector<std::size_t> spread_distances(std::size_t size) {
  std::vector<std::size_t> distances;
  const std::size_t whole = std::bit_ceil(size);
  for (std::size_t i = 1; i < whole; ++i) {
    std::size_t mirrored = 0;
    for (std::size_t bit = 1; bit < whole; bit *= 2) {
      mirrored = mirrored * 2 + ((i & bit) != 0 ? 1 : 0);
    }
    if (mirrored < size) distances.push_back(mirrored);
  }
  return distances;
}

class Splitter {
 public:
  Splitter(const Network& network, const Demand& demand)
      : network_(network), demand_(demand), capacity_(network.nodes.size()) {
    for (const Network::Link& link : network.links) {
      if (link.capacity > 0) capacity_[link.from][link.to] += link.capacity;
    }
    compute_nodes_ = network.compute_nodes();
  }

  /// All splits, in the order in which they are to be made.
  Result<std::vector<Split>> run() {
    TUTTI_CHECK(!find_shortage(graph(), source(), compute_nodes_, demand_.total()),
                "the network cannot meet the demand of {} trees from each of {} roots",
                demand_.trees, demand_.roots.size());
    for (Vertex v = 0; v < network_.nodes.size(); ++v) {
      if (!network_.nodes[v].computes) TUTTI_TRY(remove(v));
    }
    return std::move(done_);
  }

 private:
  enum class Style : std::uint8_t {
    kSpread,  ///< each neighbour sends a share to each other one: trees become flat
    kMost,    ///< as much as there is: few splits
    kLoops,   ///< back to where it came from, which wastes it
  };

  Status remove(Vertex via) {
    constexpr int kSpreadRounds = 16;  // each leaves a fraction of what the one before left
    for (int round = 0;; ++round) {
      std::vector<Split> splits =
          propose(via, round < kSpreadRounds ? Style::kSpread : Style::kMost);
      if (splits.empty()) splits = propose(via, Style::kMost);
      if (splits.empty()) splits = propose(via, Style::kLoops);
      if (splits.empty()) break;
      make_possible(splits);
    }
    const std::vector<std::int64_t> into = capacities_into(via);
    const bool rest = !capacity_[via].empty() ||
                      std::any_of(into.begin(), into.end(), [](auto left) { return left > 0; });
    TUTTI_CHECK(!rest, "switch {} cannot be taken out of the network without loss",
                network_.nodes[via].name);
    return ok_status();
  }

  [[nodiscard]] std::vector<std::int64_t> capacities_into(Vertex via) const {
    std::vector<std::int64_t> into(capacity_.size(), 0);
    for (Vertex from = 0; from < capacity_.size(); ++from) {
      const auto link = capacity_[from].find(via);
      if (link != capacity_[from].end()) into[from] = link->second;
    }
    return into;
  }

  /// Splits that use what is left at `via`, as far as no tight cut forbids them.
  [[nodiscard]] std::vector<Split> propose(Vertex via, Style style) const {
    std::vector<std::int64_t> into = capacities_into(via);
    std::vector<std::int64_t> out_of(capacity_.size(), 0);
    for (const auto& [to, capacity] : capacity_[via]) out_of[to] = capacity;
    std::vector<Vertex> neighbours;
    std::int64_t total = 0;
    for (Vertex v = 0; v < capacity_.size(); ++v) {
      if (into[v] > 0 || out_of[v] > 0) neighbours.push_back(v);
      total += into[v];
    }
    const std::vector<std::int64_t> all_into = into;
    const std::vector<std::int64_t> all_out_of = out_of;

    std::vector<Split> splits;
    const auto add = [&](Vertex from, Vertex to) {
      std::int64_t amount = std::min(into[from], out_of[to]);
      if (style == Style::kSpread && amount > 0) {
        const auto share = static_cast<std::int64_t>(static_cast<__int128>(all_into[from]) *
                                                     all_out_of[to] / total);
        amount = std::min(amount, std::max<std::int64_t>(1, share));
      }
      const Split split{via, from, to, amount};
      if (amount == 0 || forbidden(split)) return;
      into[from] -= amount;
      out_of[to] -= amount;
      splits.push_back(split);
    };
    if (style == Style::kLoops) {
      for (const Vertex v : neighbours) add(v, v);
      return splits;
    }
    for (const std::size_t distance : spread_distances(neighbours.size())) {
      for (std::size_t i = 0; i < neighbours.size(); ++i) {
        add(neighbours[i], neighbours[(i + distance) % neighbours.size()]);
      }
    }
    return splits;
  }

  [[nodiscard]] bool forbidden(const Split& split) const {
    return std::any_of(tight_.begin(), tight_.end(),
                       [&](const VertexSet& outside) { return narrows(split, outside); });
  }

  /// Makes as much of the splits as every cut allows. The first one gets all that it alone could
  /// have, so either something is made or a cut that forbids it becomes known.
  void make_possible(std::vector<Split>& splits) {
    std::vector<Limit> limits;
    for (;;) {
      apply(splits, 1);
      std::optional<Shortage> shortage =
          find_shortage(graph(), source(), compute_nodes_, demand_.total());
      if (!shortage) break;
      apply(splits, -1);
      limits.push_back({shortage->outside, spare_capacity(shortage->outside)});
      cut_down(splits, limits.back());
    }
    for (const Split& split : splits) {
      if (split.amount > 0) done_.push_back(split);
    }
    for (Limit& limit : limits) {
      if (spare_capacity(limit.outside) == 0) tight_.push_back(std::move(limit.outside));
    }
  }

  static void cut_down(std::vector<Split>& splits, const Limit& limit) {
    std::int64_t left = limit.capacity;
    for (Split& split : splits) {
      if (!narrows(split, limit.outside)) continue;
      split.amount = std::min(split.amount, left);
      left -= split.amount;
    }
  }

  void apply(const std::vector<Split>& splits, std::int64_t sign) {
    for (const Split& split : splits) {
      if (split.amount == 0) continue;
      change(split.from, split.via, -sign * split.amount);
      change(split.via, split.to, -sign * split.amount);
      if (split.from != split.to) change(split.from, split.to, sign * split.amount);
    }
  }

  void change(Vertex from, Vertex to, std::int64_t amount) {
    std::int64_t& capacity = capacity_[from][to];
    capacity += amount;
    if (capacity == 0) capacity_[from].erase(to);
  }

  [[nodiscard]] Vertex source() const { return static_cast<Vertex>(capacity_.size()); }

  [[nodiscard]] FlowGraph graph() const {
    FlowGraph graph(capacity_.size() + 1);
    for (Vertex from = 0; from < capacity_.size(); ++from) {
      for (const auto& [to, capacity] : capacity_[from]) graph.add_arc(from, to, capacity);
    }
    for (const Vertex root : demand_.roots) graph.add_arc(source(), root, demand_.trees);
    return graph;
  }

  [[nodiscard]] std::int64_t spare_capacity(const VertexSet& outside) const {
    std::int64_t entering = -demand_.total();
    for (const Vertex root : demand_.roots) entering += outside.contains(root) ? demand_.trees : 0;
    for (Vertex from = 0; from < capacity_.size(); ++from) {
      if (outside.contains(from)) continue;
      for (const auto& [to, capacity] : capacity_[from]) {
        if (outside.contains(to)) entering += capacity;
      }
    }
    return entering;
  }

  const Network& network_;
  const Demand& demand_;
  std::vector<std::map<Vertex, std::int64_t>> capacity_;  // [from][to], greater than 0
  std::vector<Vertex> compute_nodes_;
  std::vector<VertexSet> tight_;  // stay tight, since no split widens a cut
  std::vector<Split> done_;
};

/// Takes routes of `amount` together away from a link.
std::vector<Route> take(std::vector<Route>& routes, std::int64_t amount) {
  std::vector<Route> taken;
  while (amount > 0) {
    Route& last = routes.back();
    const std::int64_t part = std::min(amount, last.weight);
    taken.push_back({last.path, part});
    amount -= part;
    last.weight -= part;
    if (last.weight == 0) routes.pop_back();
  }
  return taken;
}

/// `first` continued by `second`, without the detour between two visits of the same switch.
std::vector<Vertex> joined(std::vector<Vertex> first, const std::vector<Vertex>& second) {
  for (auto next = second.begin() + 1; next != second.end(); ++next) {
    first.erase(std::find(first.begin(), first.end(), *next), first.end());
    first.push_back(*next);
  }
  return first;
}

/// Pairs the routes of two adjoining links, which weigh the same together.
void append_joined(std::vector<Route> first, std::vector<Route> second, std::vector<Route>& joint) {
  while (!first.empty()) {
    const std::int64_t weight = std::min(first.back().weight, second.back().weight);
    std::vector<Vertex> path = joined(first.back().path, second.back().path);
    const auto same = std::find_if(joint.begin(), joint.end(),
                                   [&](const Route& route) { return route.path == path; });
    if (same != joint.end()) {
      same->weight += weight;
    } else {
      joint.push_back({std::move(path), weight});
    }
    for (std::vector<Route>* side : {&first, &second}) {
      side->back().weight -= weight;
      if (side->back().weight == 0) side->pop_back();
    }
  }
}

}  // namespace

Result<Overlay> remove_switches(const Network& network, const Demand& demand) {
  TUTTI_ASSIGN(const std::vector<Split> splits, Splitter(network, demand).run());
  Overlay overlay;
  for (const Network::Link& link : network.links) {
    if (link.capacity == 0) continue;
    append_joined({{{link.from}, link.capacity}}, {{{link.from, link.to}, link.capacity}},
                  overlay[{link.from, link.to}]);
  }
  for (const Split& split : splits) {
    std::vector<Route> first = take(overlay[{split.from, split.via}], split.amount);
    std::vector<Route> second = take(overlay[{split.via, split.to}], split.amount);
    if (split.from == split.to) continue;
    append_joined(std::move(first), std::move(second), overlay[{split.from, split.to}]);
  }
  std::erase_if(overlay, [](const auto& link) { return link.second.empty(); });
  return overlay;
}

}  // namespace tutti::topo::forest
