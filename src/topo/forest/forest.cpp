#include "src/topo/forest/forest.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "src/base/result.hpp"
#include "src/topo/forest/flatten.hpp"
#include "src/topo/forest/packing.hpp"
#include "src/topo/forest/shortage.hpp"

namespace tutti::topo::forest {
namespace {

/// With more trees than this rounding costs next to nothing.
constexpr std::int64_t kMostRoundedTrees = 1024;

/// How many trees to pack, and how many fit through each link meanwhile.
struct Plan {
  Network network;  ///< capacities count trees
  std::int64_t trees_per_root = 0;
  Ratio time;
};

/// The capacity of each link multiplied by a ratio and rounded down, and no more than `most`.
Network scaled(Network network, Ratio factor, std::int64_t most) {
  for (Network::Link& link : network.links) {
    const auto product = static_cast<__int128>(link.capacity) * factor.numerator;
    link.capacity =
        static_cast<std::int64_t>(std::min<__int128>(product / factor.denominator, most));
  }
  return network;
}

/// Links between the same nodes joined to one.
Network joined(const Network& network) {
  Capacities capacities;
  for (const Network::Link& link : network.links) {
    capacities[{link.from, link.to}] += link.capacity;
  }
  Network result{network.nodes, {}, network.unit};
  for (const auto& [ends, capacity] : capacities) {
    result.links.push_back({ends.first, ends.second, capacity});
  }
  return result;
}

/// As many trees as use all capacity: the time for k trees of one unit each, k * time, must let a
/// whole number of them through each link.
Plan exact_plan(const Network& network, Ratio time) {
  std::int64_t common = time.denominator;
  for (const Network::Link& link : network.links) common = std::gcd(common, link.capacity);
  const std::int64_t trees = time.denominator / common;
  return {scaled(network, {time.numerator, common}, FlowGraph::kUnbounded), trees, time};
}

bool meets(const Network& network, const Demand& demand) {
  FlowGraph graph(network.nodes.size());
  const Vertex source = graph.add_vertex();
  for (const Network::Link& link : network.links) graph.add_arc(link.from, link.to, link.capacity);
  for (const Vertex root : demand.roots) graph.add_arc(source, root, demand.trees);
  return !find_shortage(std::move(graph), source, network.compute_nodes(), demand.total());
}

/// The network in which capacities count trees of which `trees` from each root take `time`.
/// Rounding may put switches out of balance, where links have two directions of different capacity.
Network rounded(const Network& network, const Demand& demand, Ratio time) {
  return balanced(
      scaled(network, {time.numerator * demand.trees, time.denominator}, demand.total()));
}

/// The fewest trees that attain the optimum, if a few do: links that are no part of a worst cut may
/// lose a fraction of a tree. Fewer trees make fewer and longer messages.
Plan fewest_plan(const Network& network, const std::vector<Vertex>& roots, Ratio optimum) {
  constexpr std::int64_t kTried = 16;
  Plan exact = exact_plan(network, optimum);
  for (std::int64_t trees = 1; trees < std::min(exact.trees_per_root, kTried + 1); ++trees) {
    const Demand demand{roots, trees};
    Network few = rounded(network, demand, optimum);
    if (meets(few, demand)) return {std::move(few), trees, optimum};
  }
  return exact;
}

/// The network with links of `from` trees rounded down to `to`.
Network narrowed(Network network, std::int64_t from, std::int64_t to) {
  for (Network::Link& link : network.links)
    if (link.capacity == from) link.capacity = to;
  return balanced(network);
}

/// The network with its narrowest links made as narrow as the trees allow. Those links are as a
/// rule the ones between machines: what need not pass them finds a shorter way, and what does has
/// more of their bandwidth, and so comes early.
Network without_spare_trees(const Network& network, const Demand& demand) {
  std::int64_t enough = FlowGraph::kUnbounded;
  for (const Network::Link& link : network.links)
    if (link.capacity > 0) enough = std::min(enough, link.capacity);
  const std::int64_t narrowest = enough;
  std::int64_t too_few = 0;
  while (enough - too_few > 1) {
    const std::int64_t middle = too_few + (enough - too_few) / 2;
    (meets(narrowed(network, narrowest, middle), demand) ? enough : too_few) = middle;
  }
  return narrowed(network, narrowest, enough);
}

/// The shortest time for `trees` trees from each root, but for one part in kSteps of the optimum.
std::optional<Plan> rounded_plan(const Network& network, const Demand& demand, Ratio optimum) {
  constexpr std::int64_t kSteps = 1024;
  constexpr std::int64_t kMostSteps = std::int64_t{1} << 31U;  // no ratio comes near 2^63
  const auto prolonged = [&](std::int64_t steps) {
    return Ratio{optimum.numerator * (kSteps + steps), optimum.denominator * kSteps};
  };
  const auto network_at = [&](std::int64_t steps) {
    return rounded(network, demand, prolonged(steps));
  };
  std::int64_t enough = 1;
  while (!meets(network_at(enough), demand)) {
    enough *= 2;
    if (enough > kMostSteps) return std::nullopt;
  }
  std::int64_t too_few = -1;  // less than the optimum
  while (enough - too_few > 1) {
    const std::int64_t middle = too_few + (enough - too_few) / 2;
    (meets(network_at(middle), demand) ? enough : too_few) = middle;
  }
  return Plan{network_at(enough), demand.trees, prolonged(enough).reduced()};
}

/// The best of a few numbers of trees up to the limit; of equal ones the fewest.
Result<Plan> limited_plan(const Network& network, const std::vector<Vertex>& roots, Ratio optimum,
                          std::int64_t most_trees) {
  constexpr std::int64_t kTried = 16;
  std::optional<Plan> best;
  const std::int64_t last = std::min<std::int64_t>(most_trees, kMostRoundedTrees);
  for (std::int64_t trees = std::max<std::int64_t>(1, last - kTried + 1); trees <= last; ++trees) {
    std::optional<Plan> plan = rounded_plan(network, {roots, trees}, optimum);
    if (plan && (!best || plan->time < best->time)) best = std::move(plan);
  }
  if (best) return *std::move(best);
  return make_error(Code::kInvalidArgument,
                    "no {} trees from each root can be packed once capacities are rounded down: "
                    "allow more than {} (GrowOptions::most_trees_per_root)",
                    last, most_trees);
}

/// Hands out an overlay's routes to the trees that use its links.
class Router {
 public:
  explicit Router(Overlay overlay) : overlay_(std::move(overlay)) {}

  std::vector<Route> take(std::pair<Vertex, Vertex> ends, std::int64_t weight) {
    std::vector<Route>& left = overlay_.find(ends)->second;
    std::vector<Route> taken;
    while (weight > 0) {
      const std::int64_t part = std::min(weight, left.back().weight);
      taken.push_back({left.back().path, part});
      weight -= part;
      left.back().weight -= part;
      if (left.back().weight == 0) left.pop_back();
    }
    return taken;
  }

 private:
  Overlay overlay_;
};

Capacities capacities_of(const Overlay& overlay) {
  Capacities capacities;
  for (const auto& [ends, routes] : overlay) {
    for (const Route& route : routes) capacities[ends] += route.weight;
  }
  return capacities;
}

std::vector<Rank> ranks_by_vertex(const Network& network) {
  std::vector<Rank> rank_of(network.nodes.size(), kNoRank);
  Rank next = 0;
  for (const Vertex v : network.compute_nodes()) rank_of[v] = next++;
  return rank_of;
}

Result<std::vector<Tree>> plant(const Plan& plan, const std::vector<Vertex>& roots,
                                FirstHops first) {
  const Demand demand{roots, plan.trees_per_root};
  TUTTI_ASSIGN(Overlay overlay, remove_switches(plan.network, demand));
  const Capacities capacities = capacities_of(overlay);
  TUTTI_ASSIGN(const std::vector<PackedTree> packed,
               pack(plan.network.compute_nodes(), capacities, demand, first));
  const std::vector<Rank> rank_of = ranks_by_vertex(plan.network);
  Router router(std::move(overlay));
  std::vector<Tree> trees;
  for (const PackedTree& from : flattened(packed, capacities, first)) {
    Tree tree{rank_of[from.root], from.weight, {}};
    for (const auto& ends : from.links) {
      tree.hops.push_back(
          {rank_of[ends.first], rank_of[ends.second], router.take(ends, from.weight)});
    }
    trees.push_back(std::move(tree));
  }
  return trees;
}

Result<std::vector<Vertex>> roots_of(const Network& network, const GrowOptions& options) {
  std::vector<Vertex> compute_nodes = network.compute_nodes();
  if (!options.root) return compute_nodes;
  const Rank root = *options.root;
  if (root < 0 || static_cast<std::size_t>(root) >= compute_nodes.size()) {
    return make_error(Code::kInvalidArgument, "root {} is none of the network's {} ranks", root,
                      compute_nodes.size());
  }
  return std::vector<Vertex>{compute_nodes[static_cast<std::size_t>(root)]};
}

}  // namespace

Result<Forest> grow(const Network& network, const GrowOptions& options) {
  TUTTI_TRY(check(network));
  TUTTI_TRY(check_balance(network));
  if (options.most_trees_per_root < 0) {
    return make_error(Code::kInvalidArgument,
                      "at most {} trees from each root: 0 is no limit, else allow 1 or more",
                      options.most_trees_per_root);
  }
  TUTTI_ASSIGN(const std::vector<Vertex> roots, roots_of(network, options));
  TUTTI_ASSIGN(const Optimum optimum, find_optimum(network, roots));

  Forest forest;
  const std::vector<Rank> rank_of = ranks_by_vertex(network);
  for (const Vertex root : roots) forest.roots.push_back(rank_of[root]);
  forest.ranks = static_cast<std::int32_t>(network.compute_nodes().size());
  forest.optimal_time = optimum.time;
  if (forest.ranks == 1) {
    forest.trees_per_root = 1;
    forest.trees = {Tree{0, 1, {}}};
    forest.time = optimum.time;
    return forest;
  }
  const Network joint = joined(network);
  Plan plan = fewest_plan(joint, roots, optimum.time);
  if (options.most_trees_per_root > 0 && plan.trees_per_root > options.most_trees_per_root) {
    TUTTI_ASSIGN(plan, limited_plan(joint, roots, optimum.time, options.most_trees_per_root));
  }
  if (options.direct_hops_first)
    plan.network = without_spare_trees(plan.network, {roots, plan.trees_per_root});
  forest.trees_per_root = plan.trees_per_root;
  forest.time = plan.time;
  const FirstHops first = options.direct_hops_first ? FirstHops::kDirect : FirstHops::kAny;
  TUTTI_ASSIGN(forest.trees, plant(plan, roots, first));
  TUTTI_TRY(check(forest, network));
  return forest;
}

bool carries(Collective collective) {
  switch (collective) {
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
      return true;
    default:
      return false;
  }
}

std::int32_t height(const Tree& tree) {
  std::map<Rank, std::int32_t> depth = {{tree.root, 0}};
  std::int32_t most = 0;
  for (const Hop& hop : tree.hops) {
    depth[hop.to] = depth[hop.from] + 1;
    most = std::max(most, depth[hop.to]);
  }
  return most;
}

}  // namespace tutti::topo::forest
