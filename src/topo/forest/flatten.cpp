#include "src/topo/forest/flatten.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

namespace tutti::topo::forest {
namespace {

constexpr std::int64_t kMostLooks = std::int64_t{1} << 28U;
constexpr Vertex kNoParent = std::numeric_limits<Vertex>::max();
/// An exchange must gain so much of what it moves, so that rounding never makes two go in circles.
constexpr double kLeastGain = 1e-9;

/// 4^depth, as far as a double goes.
double price(std::int32_t depth) {
  constexpr std::int32_t kDeepest = 500;
  double value = 1;
  for (std::int32_t i = 0; i < std::min(depth, kDeepest); ++i) value *= 4;
  return value;
}

/// 4^by - 1: what a subtree that goes down by so many levels costs more, for what it costs.
double rise(std::int32_t by) { return by >= 0 ? price(by) - 1 : 1 / price(-by) - 1; }

/// A tree in a form in which parents are found at once. All vectors go by vertex.
struct Plant {
  Vertex root = 0;
  std::int64_t weight = 0;
  std::vector<Vertex> parent;
  std::vector<std::int32_t> depth;
  std::vector<double> cost;  // price of all vertices at and below this one

  [[nodiscard]] bool has(Vertex v) const { return v == root || parent[v] != kNoParent; }
  [[nodiscard]] bool is_below(Vertex v, Vertex top) const {
    while (v != top && v != root) v = parent[v];
    return v == top;
  }
  /// The vertices but for the root, by depth.
  [[nodiscard]] std::vector<Vertex> by_depth() const {
    std::vector<Vertex> order;
    for (Vertex v = 0; v < parent.size(); ++v)
      if (parent[v] != kNoParent) order.push_back(v);
    std::ranges::sort(order, {}, [&](Vertex v) { return std::pair(depth[v], v); });
    return order;
  }
  /// Depths and costs from parents.
  void measure() {
    std::ranges::fill(depth, -1);
    depth[root] = 0;
    for (Vertex v = 0; v < parent.size(); ++v) measure_depth(v);
    std::vector<Vertex> order = by_depth();
    for (const Vertex v : order) cost[v] = price(depth[v]);
    for (auto v = order.rbegin(); v != order.rend(); ++v)
      if (parent[*v] != root) cost[parent[*v]] += cost[*v];
  }

 private:
  void measure_depth(Vertex v) {
    if (parent[v] == kNoParent) return;
    std::int32_t above = 0;
    Vertex at = v;
    for (; depth[at] < 0; at = parent[at]) ++above;
    std::int32_t reached = depth[at] + above;
    for (at = v; depth[at] < 0; at = parent[at]) depth[at] = reached--;
  }
};

class Flattener {
 public:
  Flattener(const std::vector<PackedTree>& trees, const Capacities& capacities, FirstHops first)
      : unused_(capacities), keeps_direct_hops_(first == FirstHops::kDirect) {
    for (const auto& [ends, capacity] : capacities)
      size_ = std::max({size_, ends.first + std::size_t{1}, ends.second + std::size_t{1}});
    for (const PackedTree& tree : trees) {
      Plant plant{tree.root, tree.weight, std::vector<Vertex>(size_, kNoParent),
                  std::vector<std::int32_t>(size_, 0), std::vector<double>(size_, 0)};
      for (const auto& [from, to] : tree.links) {
        plant.parent[to] = from;
        unused_[{from, to}] -= tree.weight;
      }
      plant.measure();
      plants_.push_back(std::move(plant));
    }
    std::erase_if(unused_, [](const auto& link) { return link.second == 0; });
  }

  std::vector<PackedTree> run() {
    while (take_unused() || exchange()) {
    }
    std::vector<std::size_t> order(plants_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(plants_[i].root, i); });
    std::vector<PackedTree> trees;
    for (const std::size_t i : order) {
      const Plant& plant = plants_[i];
      PackedTree tree{plant.root, plant.weight, {}};
      for (const Vertex v : plant.by_depth()) tree.links.emplace_back(plant.parent[v], v);
      trees.push_back(std::move(tree));
    }
    return trees;
  }

 private:
  /// Hangs v on other parents where their links have room. Whether anything changed.
  bool take_unused() {
    bool changed = false;
    const Capacities links = unused_;  // those that come free meanwhile are seen the next time
    for (const auto& [ends, capacity] : links) {
      const auto [from, to] = ends;
      for (std::size_t t = 0; t < plants_.size() && looks_ < kMostLooks; ++t, ++looks_) {
        const std::int64_t room = unused_[ends];
        if (room == 0) break;
        const Plant& plant = plants_[t];
        if (plant.parent[to] == kNoParent || !plant.has(from)) continue;
        if (plant.depth[from] + 1 >= plant.depth[to] || plant.is_below(from, to)) continue;
        part(t, room);
        unused_[ends] -= plants_[t].weight;
        unused_[{plants_[t].parent[to], to}] += plants_[t].weight;
        hang(plants_[t], to, from);
        changed = true;
      }
    }
    return changed;
  }

  bool exchange() {
    bool changed = false;
    for (Vertex v = 0; v < size_; ++v)
      for (std::size_t a = 0; a < plants_.size(); ++a)
        for (std::size_t b = a + 1; b < plants_.size() && looks_ < kMostLooks; ++b, ++looks_)
          if (gains(plants_[a], plants_[b], v)) {
            const std::int64_t weight = std::min(plants_[a].weight, plants_[b].weight);
            part(a, weight);
            part(b, weight);
            const Vertex parent = plants_[a].parent[v];
            hang(plants_[a], v, plants_[b].parent[v]);
            hang(plants_[b], v, parent);
            changed = true;
          }
    return changed;
  }

  /// Whether the two had better exchange their parents of v.
  [[nodiscard]] bool gains(const Plant& a, const Plant& b, Vertex v) const {
    const Vertex of_a = a.parent[v];
    const Vertex of_b = b.parent[v];
    if (of_a == of_b || of_a == kNoParent || of_b == kNoParent) return false;
    if (!a.has(of_b) || !b.has(of_a)) return false;
    if (keeps_direct_hops_ && (of_a == a.root || of_b == b.root)) return false;
    const std::int32_t down_a = a.depth[of_b] + 1 - a.depth[v];
    const std::int32_t down_b = b.depth[of_a] + 1 - b.depth[v];
    if (down_a >= 0 && down_b >= 0) return false;
    const double gain = -a.cost[v] * rise(down_a) - b.cost[v] * rise(down_b);
    if (gain <= kLeastGain * (a.cost[v] + b.cost[v])) return false;
    return !a.is_below(of_b, v) && !b.is_below(of_a, v);
  }

  /// Leaves at most `weight` in the plant; the rest becomes one of its own.
  void part(std::size_t which, std::int64_t weight) {
    if (plants_[which].weight <= weight) return;
    Plant rest = plants_[which];
    rest.weight -= weight;
    plants_[which].weight = weight;
    plants_.push_back(std::move(rest));
  }

  static void hang(Plant& plant, Vertex v, Vertex parent) {
    plant.parent[v] = parent;
    plant.measure();
  }

  std::size_t size_ = 0;
  Capacities unused_;
  bool keeps_direct_hops_ = false;
  std::vector<Plant> plants_;
  std::int64_t looks_ = 0;
};

}  // namespace

std::vector<PackedTree> flattened(const std::vector<PackedTree>& trees,
                                  const Capacities& capacities, FirstHops first) {
  return Flattener(trees, capacities, first).run();
}

}  // namespace tutti::topo::forest
