#include "src/topo/forest/packing.hpp"

#include <algorithm>
#include <deque>
#include <numeric>
#include <optional>
#include <utility>

#include "src/base/result.hpp"
#include "src/topo/forest/shortage.hpp"
#include "src/topo/forest/vertex_set.hpp"

namespace tutti::topo::forest {
namespace {

/// A tree on its way, or several equal ones.
struct Sapling {
  PackedTree tree;
  VertexSet reached;
  std::vector<Vertex> order;  // the same vertices, in the order in which they were reached
};

/// A set of vertices that trees have to enter, and the capacity into it that is left if each tree
/// that has not reached it enters once.
struct Spare {
  VertexSet inside;
  std::int64_t capacity = 0;
};

struct Link {
  Vertex from = 0;
  Vertex to = 0;
};
using LinkIndex = std::size_t;  // position in Packer::links_

/// Everything that growth changes.
struct State {
  std::vector<std::int64_t> capacity;  // of each link
  std::vector<Spare> spares;           // at least 0 each
  std::deque<Sapling> waiting;         // to be grown later
};

class Packer {
 public:
  Packer(const std::vector<Vertex>& vertices, const Capacities& capacities, const Demand& demand)
      : vertices_(vertices), size_(vertices.back() + std::size_t{1}), next_of_(size_) {
    for (const auto& [ends, capacity] : capacities) {
      next_of_[ends.first].push_back(links_.size());
      links_.push_back({ends.first, ends.second});
      state_.capacity.push_back(capacity);
    }
    // Links to vertices that follow a vertex come first, so that trees choose different ones.
    for (Vertex v = 0; v < size_; ++v) {
      std::vector<LinkIndex>& next = next_of_[v];
      const auto following = std::find_if(next.begin(), next.end(),
                                          [&](LinkIndex link) { return links_[link].to > v; });
      std::rotate(next.begin(), following, next.end());
    }
    for (const Vertex root : demand.roots) {
      Sapling sapling{{root, demand.trees, {}}, VertexSet(size_), {root}};
      sapling.reached.insert(root);
      state_.waiting.push_back(std::move(sapling));
    }
  }

  Result<std::vector<PackedTree>> run(FirstHops first) {
    TUTTI_CHECK(!find_shortage(), "the capacities do not meet the demand");
    std::vector<PackedTree> trees;
    if (first == FirstHops::kDirect)
      for (std::size_t i = 0; i < state_.waiting.size(); ++i) grow_direct_hops();
    while (!state_.waiting.empty()) {
      TUTTI_ASSIGN(PackedTree tree, grow_first());
      trees.push_back(std::move(tree));
    }
    return trees;
  }

 private:
  /// Grows the first waiting tree so that the others can be grown after it. Each attempt that fails
  /// teaches a set that later ones respect.
  Result<PackedTree> grow_first() {
    for (;;) {
      State before = state_;
      Sapling sapling = std::move(state_.waiting.front());
      state_.waiting.pop_front();
      const bool complete = grow(sapling);
      if (!complete) state_.waiting.push_front(sapling);
      std::optional<Shortage> shortage = find_shortage();
      if (!shortage) {
        TUTTI_CHECK(complete, "a tree from vertex {} is stuck though it can be completed",
                    sapling.tree.root);
        return std::move(sapling.tree);
      }
      take_back(std::move(before), *std::move(shortage));
    }
  }

  /// Gives the first waiting tree every hop from its root that all of the equal trees can have, and
  /// puts it last.
  void grow_direct_hops() {
    for (;;) {
      State before = state_;
      Sapling sapling = std::move(state_.waiting.front());
      state_.waiting.pop_front();
      for (const LinkIndex link : next_of_[sapling.tree.root])
        if (room(sapling, link) == sapling.tree.weight) take(sapling, link);
      state_.waiting.push_back(std::move(sapling));
      std::optional<Shortage> shortage = find_shortage();
      if (!shortage) return;
      take_back(std::move(before), *std::move(shortage));
    }
  }

  /// Undoes an attempt, and remembers the set that it entered too often.
  void take_back(State before, Shortage shortage) {
    state_ = std::move(before);
    state_.spares.push_back({std::move(shortage.outside), 0});
    state_.spares.back().capacity = spare_capacity(state_.spares.back().inside);
  }

  /// False: no link has room for it.
  bool grow(Sapling& sapling) {
    std::size_t scanned = 0;  // vertices of sapling.order from which no link has room
    while (sapling.order.size() < vertices_.size()) {
      std::optional<LinkIndex> link = first_with_room(sapling, scanned);
      if (!link) {
        link = roomiest(sapling);
        if (!link) return false;
        leave_behind(sapling, sapling.tree.weight - room(sapling, *link));
        scanned = 0;
      }
      take(sapling, *link);
    }
    return true;
  }

  /// A link over which all of the equal trees can grow, nearest to the root. Room only shrinks
  /// while their weight stays, so what was scanned once needs no second look.
  [[nodiscard]] std::optional<LinkIndex> first_with_room(const Sapling& sapling,
                                                         std::size_t& scanned) const {
    for (; scanned < sapling.order.size(); ++scanned) {
      for (const LinkIndex link : next_of_[sapling.order[scanned]]) {
        if (room(sapling, link) == sapling.tree.weight) return link;
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<LinkIndex> roomiest(const Sapling& sapling) const {
    std::optional<LinkIndex> best;
    std::int64_t most = 0;
    for (const Vertex from : sapling.order) {
      for (const LinkIndex link : next_of_[from]) {
        const std::int64_t found = room(sapling, link);
        if (found <= most) continue;
        most = found;
        best = link;
      }
    }
    return best;
  }

  /// How many of the equal trees can grow over a link, as far as is known.
  [[nodiscard]] std::int64_t room(const Sapling& sapling, LinkIndex link) const {
    if (sapling.reached.contains(links_[link].to)) return 0;
    std::int64_t least = std::min(sapling.tree.weight, state_.capacity[link]);
    for (const Spare& spare : state_.spares) {
      if (least <= spare.capacity) continue;
      if (enters_again(sapling, links_[link], spare)) least = spare.capacity;
    }
    return least;
  }

  static bool enters_again(const Sapling& sapling, const Link& link, const Spare& spare) {
    return spare.inside.contains(link.to) && !spare.inside.contains(link.from) &&
           spare.inside.meets(sapling.reached);
  }

  void leave_behind(Sapling& sapling, std::int64_t weight) {
    Sapling rest = sapling;
    rest.tree.weight = weight;
    sapling.tree.weight -= weight;
    state_.waiting.push_back(std::move(rest));
  }

  void take(Sapling& sapling, LinkIndex index) {
    const Link& link = links_[index];
    state_.capacity[index] -= sapling.tree.weight;
    for (Spare& spare : state_.spares) {
      if (enters_again(sapling, link, spare)) spare.capacity -= sapling.tree.weight;
    }
    sapling.reached.insert(link.to);
    sapling.order.push_back(link.to);
    sapling.tree.links.emplace_back(link.from, link.to);
  }

  /// Whether each vertex can still be reached by every waiting tree. A tree that has reached
  /// several vertices already is a vertex of its own that leads to them.
  [[nodiscard]] std::optional<Shortage> find_shortage() const {
    FlowGraph graph(size_ + 1);
    const auto source = static_cast<Vertex>(size_);
    for (LinkIndex i = 0; i < links_.size(); ++i) {
      if (state_.capacity[i] > 0) graph.add_arc(links_[i].from, links_[i].to, state_.capacity[i]);
    }
    std::int64_t needed = 0;
    for (const Sapling& sapling : state_.waiting) {
      needed += sapling.tree.weight;
      if (sapling.order.size() == 1) {
        graph.add_arc(source, sapling.tree.root, sapling.tree.weight);
        continue;
      }
      const Vertex held = graph.add_vertex();
      graph.add_arc(source, held, sapling.tree.weight);
      for (const Vertex v : sapling.order) graph.add_arc(held, v, FlowGraph::kUnbounded);
    }
    return forest::find_shortage(std::move(graph), source, vertices_, needed);
  }

  [[nodiscard]] std::int64_t spare_capacity(const VertexSet& inside) const {
    std::int64_t spare = 0;
    for (LinkIndex i = 0; i < links_.size(); ++i) {
      if (!inside.contains(links_[i].from) && inside.contains(links_[i].to)) {
        spare += state_.capacity[i];
      }
    }
    for (const Sapling& sapling : state_.waiting) {
      if (!inside.meets(sapling.reached)) spare -= sapling.tree.weight;
    }
    return spare;
  }

  const std::vector<Vertex>& vertices_;
  std::size_t size_;
  std::vector<Link> links_;
  std::vector<std::vector<LinkIndex>> next_of_;  // that leave a vertex
  State state_;
};

}  // namespace

Result<std::vector<PackedTree>> pack(const std::vector<Vertex>& vertices,
                                     const Capacities& capacities, const Demand& demand,
                                     FirstHops first) {
  TUTTI_ASSIGN(std::vector<PackedTree> trees, Packer(vertices, capacities, demand).run(first));
  // Without std::stable_sort: clang finds its buffer deprecated in libstdc++ 12.
  std::vector<std::size_t> order(trees.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(trees[i].root, i); });
  std::vector<PackedTree> by_root;
  for (const std::size_t i : order) by_root.push_back(std::move(trees[i]));
  return by_root;
}

}  // namespace tutti::topo::forest
