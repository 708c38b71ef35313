#include "src/topo/forest/splitting.hpp"

#include <map>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "src/topo/forest/sample_networks.hpp"
#include "src/topo/forest/shortage.hpp"

namespace tutti::topo::forest {
namespace {

std::int64_t weight_of(const std::vector<Route>& routes) {
  std::int64_t sum = 0;
  for (const Route& route : routes) sum += route.weight;
  return sum;
}

/// Whether every compute node can get all trees over the overlay.
bool meets(const Overlay& overlay, const Network& network, const Demand& demand) {
  FlowGraph graph(network.nodes.size());
  const Vertex source = graph.add_vertex();
  for (const auto& [ends, routes] : overlay) {
    graph.add_arc(ends.first, ends.second, weight_of(routes));
  }
  for (const Vertex root : demand.roots) graph.add_arc(source, root, demand.trees);
  return !find_shortage(std::move(graph), source, network.compute_nodes(), demand.total());
}

/// Each route is a way between the link's ends through switches, and together they fit.
void expect_routes(const Overlay& overlay, const Network& network) {
  std::map<std::pair<Vertex, Vertex>, std::int64_t> left;
  for (const Network::Link& link : network.links) left[{link.from, link.to}] += link.capacity;
  for (const auto& [ends, routes] : overlay) {
    for (const Route& route : routes) {
      ASSERT_GE(route.path.size(), 2U);
      EXPECT_EQ(route.path.front(), ends.first);
      EXPECT_EQ(route.path.back(), ends.second);
      EXPECT_EQ(std::set<Vertex>(route.path.begin(), route.path.end()).size(), route.path.size());
      for (std::size_t i = 0; i < route.path.size(); ++i) {
        const bool is_end = i == 0 || i + 1 == route.path.size();
        EXPECT_EQ(network.nodes[route.path[i]].computes, is_end);
        if (i > 0) left[{route.path[i - 1], route.path[i]}] -= route.weight;
      }
    }
  }
  for (const auto& [ends, capacity] : left) EXPECT_GE(capacity, 0);
}

/// Four ranks with 6 units each to one switch.
Network star() {
  NetworkBuilder build;
  const Vertex s = build.switches("s");
  for (int i = 0; i < 4; ++i) build.both_ways(s, build.computes(fmt::format("r{}", i)), 3);
  return std::move(build).finish();
}

TEST(Splitting, SpreadsAStarOverAllPairs) {
  const Network network = star();
  const Demand demand{network.compute_nodes(), 2};
  const auto overlay = remove_switches(network, demand);
  ASSERT_TRUE(overlay) << overlay.error().what;
  EXPECT_EQ(overlay->size(), 12U);
  for (const auto& [ends, routes] : *overlay) EXPECT_EQ(weight_of(routes), 2);
  expect_routes(*overlay, network);
  EXPECT_TRUE(meets(*overlay, network, demand));
}

TEST(Splitting, SendsNothingBackIntoAMachineWhoseWayInIsTheBottleneck) {
  // Two machines of two ranks; a machine's four trees from outside fill its way in.
  NetworkBuilder build;
  const Vertex ib = build.switches("ib");
  std::vector<Vertex> ranks;
  for (int i = 0; i < 4; ++i) {
    ranks.push_back(build.computes(fmt::format("r{}", i)));
    build.both_ways(ranks.back(), ib, 1);
  }
  build.both_ways(ranks[0], ranks[1], 50);
  build.both_ways(ranks[2], ranks[3], 50);
  const Network network = std::move(build).finish();
  const Demand demand{ranks, 2};
  const auto overlay = remove_switches(network, demand);
  ASSERT_TRUE(overlay) << overlay.error().what;
  EXPECT_EQ(weight_of(overlay->at({ranks[0], ranks[1]})), 100);
  EXPECT_EQ(weight_of(overlay->at({ranks[2], ranks[3]})), 100);
  EXPECT_TRUE(meets(*overlay, network, demand));
}

TEST(Splitting, KeepsARoutesSwitchesInOrder) {
  NetworkBuilder build;
  const Vertex a = build.computes("a");
  const Vertex b = build.computes("b");
  const Vertex near_b = build.switches("near b");
  const Vertex near_a = build.switches("near a");
  build.both_ways(a, near_a, 1);
  build.both_ways(near_a, near_b, 1);
  build.both_ways(near_b, b, 1);
  const auto overlay = remove_switches(std::move(build).finish(), {{a, b}, 2});
  ASSERT_TRUE(overlay) << overlay.error().what;
  EXPECT_EQ(overlay->at({a, b}), (std::vector<Route>{{{a, near_a, near_b, b}, 2}}));
}

TEST(Splitting, RefusesADemandThatTheNetworkCannotMeet) {
  const Network network = star();
  const auto overlay = remove_switches(network, {network.compute_nodes(), 3});
  ASSERT_FALSE(overlay);
  EXPECT_EQ(overlay.error().code, Code::kInternal);
}

TEST(Splitting, KeepsWhatRandomNetworksCanDo) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    const Network network =
        random_network(random, {2 + static_cast<int>(random() % 5),
                                1 + static_cast<int>(random() % 5), random() % 2 == 0});
    Demand demand{network.compute_nodes(), 1};
    Overlay direct;  // as if switches could do anything: the most trees that may be asked for
    for (const Network::Link& link : network.links) {
      direct[{link.from, link.to}].push_back({{link.from, link.to}, link.capacity});
    }
    while (meets(direct, network, demand)) ++demand.trees;
    if (--demand.trees == 0) continue;
    const auto overlay = remove_switches(network, demand);
    ASSERT_TRUE(overlay) << overlay.error().what;
    expect_routes(*overlay, network);
    EXPECT_TRUE(meets(*overlay, network, demand));
  }
}

}  // namespace
}  // namespace tutti::topo::forest
