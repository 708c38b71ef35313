// Networks of switches without tiers: Jellyfish and BiGraph.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "src/base/hash.hpp"
#include "src/base/result.hpp"
#include "tools/fabric/wiring.hpp"

namespace tutti::topo {
namespace {

/// A random graph in which every vertex has `degree` neighbours, or one vertex a neighbour less if
/// their product is odd. Made as in the Jellyfish paper, section 3: join two random vertices that
/// have free ports and are no neighbours; where none are left, let a vertex with two free ports (or
/// two neighbours with one each) step in between the ends of a random edge.
class RandomGraph {
 public:
  using Edge = std::pair<std::uint32_t, std::uint32_t>;

  RandomGraph(std::uint32_t vertices, std::uint32_t degree, std::uint64_t seed)
      : neighbours_(vertices), free_ports_(vertices, degree), state_(mix(seed, vertices)) {
    for (std::uint32_t v = 0; v < vertices; ++v) open_.push_back(v);
    while (join_some() || step_in()) {
    }
  }

  /// Ascending, the smaller end of each edge first.
  [[nodiscard]] const std::set<Edge>& edges() const { return edges_; }

  [[nodiscard]] bool connected() const {
    std::vector<char> seen(neighbours_.size(), 0);
    std::vector<std::uint32_t> reached = {0};
    seen[0] = 1;
    for (std::size_t i = 0; i < reached.size(); ++i)
      for (const std::uint32_t next : neighbours_[reached[i]])
        if (!std::exchange(seen[next], 1)) reached.push_back(next);
    return reached.size() == neighbours_.size();
  }

 private:
  static constexpr int kTries = 64;  // before all pairs or edges are looked at

  std::uint64_t random(std::uint64_t below) { return (state_ = mix(state_, below)) % below; }

  bool can_join(std::uint32_t a, std::uint32_t b) const {
    return a != b && !edges_.contains(std::minmax(a, b));
  }

  void join(std::uint32_t a, std::uint32_t b) {
    edges_.insert(std::minmax(a, b));
    for (const auto& [at, other] : {Edge{a, b}, Edge{b, a}}) {
      neighbours_[at].push_back(other);
      if (--free_ports_[at] == 0) std::erase(open_, at);
    }
  }

  void part(std::uint32_t a, std::uint32_t b) {
    edges_.erase(std::minmax(a, b));
    for (const auto& [at, other] : {Edge{a, b}, Edge{b, a}}) {
      std::erase(neighbours_[at], other);
      if (free_ports_[at]++ == 0) open_.push_back(at);
    }
  }

  /// Joins a random pair; false if there is none.
  bool join_some() {
    for (int i = 0; i < kTries && open_.size() > 1; ++i) {
      const std::uint32_t a = open_[random(open_.size())], b = open_[random(open_.size())];
      if (!can_join(a, b)) continue;
      join(a, b);
      return true;
    }
    for (const std::uint32_t a : open_)
      for (const std::uint32_t b : open_)
        if (can_join(a, b)) {
          join(a, b);
          return true;
        }
    return false;
  }

  /// Takes a random edge apart and joins its ends with two free ports, of one vertex or of two that
  /// are neighbours already. False if fewer than two ports are free, or no edge will do, which
  /// means that the graph is nearly complete.
  bool step_in() {
    if (open_.empty() || edges_.empty()) return false;
    const std::uint32_t p = open_.front(), q = free_ports_[p] > 1 ? p : open_.back();
    if (p == q && free_ports_[p] < 2) return false;
    for (int i = 0; i < kTries; ++i) {
      const auto a = static_cast<std::uint32_t>(random(neighbours_.size()));
      if (neighbours_[a].empty()) continue;
      if (step_between(a, neighbours_[a][random(neighbours_[a].size())], p, q)) return true;
    }
    for (const auto& [a, b] : edges_)  // which changes with the first that will do
      if (step_between(a, b, p, q) || step_between(b, a, p, q)) return true;
    return false;
  }

  bool step_between(std::uint32_t a, std::uint32_t b, std::uint32_t p, std::uint32_t q) {
    if (!can_join(a, p) || !can_join(b, q)) return false;
    part(a, b);
    join(a, p);
    join(b, q);
    return true;
  }

  std::vector<std::vector<std::uint32_t>> neighbours_;
  std::vector<std::uint32_t> free_ports_;
  std::vector<std::uint32_t> open_;  // the vertices that have some
  std::set<Edge> edges_;
  std::uint64_t state_;
};

std::vector<NodeId> add_switches(Wiring& wiring, std::string_view name, std::uint64_t count) {
  std::vector<NodeId> switches;
  for (std::uint64_t i = 0; i < count; ++i)
    switches.push_back(wiring.add_switch(fmt::format("{}{}", name, i)));
  return switches;
}

/// How many switches with so many terminals the NICs of all hosts need.
std::uint64_t switches_for(const Wiring& wiring, std::uint32_t terminals) {
  const std::uint64_t ports = std::uint64_t{wiring.hosts()} * wiring.rails();
  return (ports + terminals - 1) / terminals;
}

}  // namespace

Status wire_jellyfish(Wiring& wiring, const FabricShape& shape) {
  const std::uint64_t count = switches_for(wiring, shape.terminals);
  if (count <= shape.degree)
    return make_error(Code::kInvalidArgument,
                      "{} switches with {} NICs each cannot have {} others as neighbours: lower "
                      "degree or terminals",
                      count, shape.terminals, shape.degree);
  TUTTI_TRY(wiring.check_cables(count * shape.degree / 2));
  constexpr std::uint64_t kGraphs = 64;
  for (std::uint64_t i = 0; i < kGraphs; ++i) {
    const RandomGraph graph(static_cast<std::uint32_t>(count), shape.degree, mix(shape.seed, i));
    if (!graph.connected()) continue;
    const auto switches = add_switches(wiring, "switch", count);
    const auto ports = wiring.ports();
    for (std::size_t p = 0; p < ports.size(); ++p)
      wiring.plug(ports[p], switches[p / shape.terminals]);
    for (const auto& [a, b] : graph.edges()) wiring.cable(switches[a], switches[b]);
    return ok_status();
  }
  return make_error(Code::kInvalidArgument,
                    "of {} random graphs with {} neighbours for each of {} switches none is "
                    "connected: raise degree",
                    kGraphs, shape.degree, count);
}

Status wire_bigraph(Wiring& wiring, const FabricShape& shape) {
  if (shape.terminals >= shape.radix)
    return make_error(Code::kInvalidArgument,
                      "terminals is {}, but must be less than the {} ports of a switch, or none "
                      "joins it with the other side",
                      shape.terminals, shape.radix);
  const std::uint64_t side =
      std::max<std::uint64_t>((switches_for(wiring, shape.terminals) + 1) / 2, 1);
  const std::uint32_t across = shape.radix - shape.terminals;
  if (side > across)
    return make_error(Code::kInvalidArgument,
                      "each side has {} switches, but a switch has {} ports for those of the other "
                      "side: raise radix",
                      side, across);
  const auto upper = add_switches(wiring, "upper", side),
             lower = add_switches(wiring, "lower", side);
  for (const NodeId above : upper)
    for (const NodeId below : lower)
      for (std::uint64_t i = 0; i < across / side; ++i) wiring.cable(above, below);
  const auto ports = wiring.ports();
  for (std::size_t p = 0; p < ports.size(); ++p) {
    const std::size_t at = p / shape.terminals;
    wiring.plug(ports[p], at % 2 == 0 ? lower[at / 2] : upper[at / 2]);
  }
  return ok_status();
}

}  // namespace tutti::topo
