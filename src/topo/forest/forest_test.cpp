#include "src/topo/forest/forest.hpp"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "src/topo/forest/sample_networks.hpp"

namespace tutti::topo::forest {
namespace {

TEST(Forest, AttainsTheOptimumOnKnownMachines) {
  for (const Network& network :
       {dgx1(), torus({8}), torus({4, 4}), torus({4, 4, 4}), nvswitch_boxes(1, 300, 0),
        nvswitch_boxes(2, 300, 25), nvswitch_boxes(4, 450, 50), degraded_ring(6, 0.5)}) {
    const auto forest = grow(network);
    ASSERT_TRUE(forest) << forest.error().what;
    EXPECT_EQ(forest->time, forest->optimal_time);
    const auto checked = check(*forest, network);
    EXPECT_TRUE(checked) << checked.error().what;
  }
}

/// How many random networks: more by TUTTI_FOREST_ROUNDS, for a long run by hand.
int rounds() {
  const char* text = std::getenv("TUTTI_FOREST_ROUNDS");  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? 500 : std::stoi(text);
}

TEST(Forest, AttainsTheOptimumOnRandomNetworks) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  int grown = 0;
  for (int round = 0; round < rounds(); ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    const Network network = random_network(
        random,
        {2 + static_cast<int>(random() % 7), static_cast<int>(random() % 5), random() % 2 == 0});
    if (!check(network)) continue;  // bringing switches into balance may cut it in two
    GrowOptions options;
    if (round % 4 == 0) options.root = static_cast<Rank>(random() % 2);
    const auto forest = grow(network, options);
    ASSERT_TRUE(forest) << forest.error().what;
    EXPECT_EQ(forest->time, forest->optimal_time);
    const auto checked = check(*forest, network);
    EXPECT_TRUE(checked) << checked.error().what;
    ++grown;
  }
  EXPECT_GT(grown, rounds() / 2);
}

TEST(Forest, HasASingleTreeOfNoHopsForOneRank) {
  NetworkBuilder build;
  build.computes("alone");
  const auto forest = grow(std::move(build).finish());
  ASSERT_TRUE(forest) << forest.error().what;
  ASSERT_EQ(forest->trees.size(), 1U);
  EXPECT_TRUE(forest->trees[0].hops.empty());
  EXPECT_EQ(forest->time, (Ratio{0, 1}));
}

TEST(Forest, OfTwoRanksIsOneHopEach) {
  const auto forest = grow(torus({2}));
  ASSERT_TRUE(forest) << forest.error().what;
  EXPECT_EQ(forest->trees_per_root, 1);
  ASSERT_EQ(forest->trees.size(), 2U);
  EXPECT_EQ(forest->trees[1].hops[0].from, 1);
  EXPECT_EQ(forest->trees[1].hops[0].to, 0);
}

TEST(Forest, IsTheSameEachTime) {
  const Network network = nvswitch_boxes(2, 300, 25);
  EXPECT_EQ(*grow(network), *grow(network));
}

TEST(Forest, WithDirectHopsFirstReachesAllNeighboursOfARootSoAndEveryOtherBoxOnce) {
  const auto forest = grow(dgx2_boxes(), {.root = {}, .direct_hops_first = true});
  ASSERT_TRUE(forest) << forest.error().what;
  EXPECT_EQ(forest->time, forest->optimal_time);
  ASSERT_EQ(forest->trees_per_root, 1);
  for (const Tree& tree : forest->trees) {
    const auto box = [](Rank rank) { return rank / 16; };
    const auto to_neighbour = [&](const Hop& hop) {
      return hop.from == tree.root && box(hop.to) == box(tree.root);
    };
    const auto between = [&](const Hop& hop) { return box(hop.from) != box(hop.to); };
    EXPECT_EQ(std::ranges::count_if(tree.hops, to_neighbour), 15) << "root " << tree.root;
    EXPECT_EQ(std::ranges::count_if(tree.hops, between), 1) << "root " << tree.root;
  }
}

TEST(Forest, TakesEachMachineInOneHopWhereThereIsNoHurry) {
  // From a rank to one rank of each other machine, and from there to its neighbours.
  const auto forest = grow(nvswitch_boxes(4, 300, 25));
  ASSERT_TRUE(forest);
  for (const Tree& tree : forest->trees) EXPECT_LE(height(tree), 3);
}

TEST(Forest, BroadcastsFromOneRootAsFastAsEveryRankCanReceive) {
  const Network network = dgx1();
  const auto forest = grow(network, {.root = 5});
  ASSERT_TRUE(forest) << forest.error().what;
  EXPECT_EQ(forest->roots, std::vector<Rank>{5});
  EXPECT_EQ(forest->trees_per_root, 6);
  for (const Tree& tree : forest->trees) EXPECT_EQ(tree.root, 5);
  EXPECT_DOUBLE_EQ(algorithm_bandwidth(network, 1, forest->time), 150);
}

TEST(Forest, OfADegradedRingUsesTheOtherDirectionMore) {
  const auto whole = grow(torus({6}));
  const auto degraded = grow(degraded_ring(6, 0.5));
  ASSERT_TRUE(whole);
  ASSERT_TRUE(degraded);
  EXPECT_EQ(whole->time, (Ratio{5, 4}));     // of half GB/s: 5 blocks through two links of 2
  EXPECT_EQ(degraded->time, (Ratio{5, 3}));  // into rank 1, and across any cut with its link
}

TEST(Forest, WithFewTreesTakesLittleMoreTimeThanTheOptimum) {
  // Links that have no common divisor.
  Network network = torus({4, 4});
  for (Network::Link& link : network.links) {
    link.capacity = 1000 + (link.from + link.to) * 37 % 101;
  }
  const auto exact = grow(network);
  ASSERT_TRUE(exact) << exact.error().what;
  EXPECT_GT(exact->trees_per_root, 1000);
  const auto limited = grow(network, {.root = {}, .most_trees_per_root = 16});
  ASSERT_TRUE(limited) << limited.error().what;
  EXPECT_LE(limited->trees_per_root, 16);
  EXPECT_EQ(limited->optimal_time, exact->time);
  EXPECT_GT(limited->time, exact->time);
  EXPECT_LT(limited->time.value(), exact->time.value() * 1.1);
  EXPECT_TRUE(check(*limited, network));
}

TEST(Forest, WithinTheLimitIsTheOptimum) {
  const Network network = nvswitch_boxes(2, 450, 50);
  EXPECT_EQ(*grow(network, {.root = {}, .most_trees_per_root = 2}), *grow(network));
  const auto single = grow(network, {.root = {}, .most_trees_per_root = 1});
  ASSERT_TRUE(single) << single.error().what;
  EXPECT_EQ(single->trees_per_root, 1);
}

TEST(Forest, WithFewTreesIsSoundOnRandomNetworks) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    const Network network = random_network(
        random,
        {2 + static_cast<int>(random() % 5), static_cast<int>(random() % 4), random() % 2 == 0});
    if (!check(network)) continue;
    const auto most = 1 + static_cast<std::int64_t>(random() % 3);
    const auto forest = grow(network, {.root = {}, .most_trees_per_root = most});
    ASSERT_TRUE(forest) << forest.error().what;
    EXPECT_LE(forest->trees_per_root, most);
    const auto checked = check(*forest, network);
    EXPECT_TRUE(checked) << checked.error().what;
  }
}

TEST(Forest, IsRefusedForARootThatIsNoRankOrANegativeLimit) {
  EXPECT_EQ(grow(torus({4}), {.root = 4}).error().what, "root 4 is none of the network's 4 ranks");
  EXPECT_EQ(grow(torus({4}), {.root = -1}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(grow(torus({4}), {.root = {}, .most_trees_per_root = -1}).error().code,
            Code::kInvalidArgument);
}

/// A forest on `network` after one change, which check() must find.
template <class Change>
void expect_caught(const Network& network, const std::string& why, Change change) {
  Forest forest = *grow(network);
  ASSERT_TRUE(check(forest, network));
  change(forest);
  const auto checked = check(forest, network);
  ASSERT_FALSE(checked) << why;
  EXPECT_NE(checked.error().what.find(why), std::string::npos) << checked.error().what;
}

TEST(ForestCheck, CatchesEachKindOfMistake) {
  const Network network = nvswitch_boxes(2, 450, 50);
  expect_caught(network, "reaches 15 of 16 ranks", [](Forest& f) { f.trees[3].hops.pop_back(); });
  expect_caught(network, "before it gets there",
                [](Forest& f) { std::swap(f.trees[3].hops.front(), f.trees[3].hops.back()); });
  expect_caught(network, "twice", [](Forest& f) { f.trees[3].hops[1] = f.trees[3].hops[0]; });
  expect_caught(network, "weigh 3 together instead of 2", [](Forest& f) {
    f.trees[0].weight += 1;
    for (Hop& hop : f.trees[0].hops) hop.routes[0].weight += 1;
  });
  expect_caught(network, "miss the tree's weight by -1",
                [](Forest& f) { f.trees[0].hops[0].routes[0].weight += 1; });
  expect_caught(network, "which has not the capacity",
                [](Forest& f) { f.time = f.optimal_time = {1, 70}; });
  expect_caught(network, "is below the optimum", [](Forest& f) { f.time = {1, 1000}; });
  expect_caught(network, "which is none", [](Forest& f) {
    std::vector<Vertex>& path = f.trees[0].hops[0].routes[0].path;
    path = {path.front(), path.back()};
  });
}

}  // namespace
}  // namespace tutti::topo::forest
