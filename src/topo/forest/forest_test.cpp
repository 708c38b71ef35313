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

}  // namespace
}  // namespace tutti::topo::forest
