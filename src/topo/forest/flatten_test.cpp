#include "src/topo/forest/flatten.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/topo/forest/forest.hpp"
#include "src/topo/forest/sample_networks.hpp"

namespace tutti::topo::forest {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(Flattened, ExchangesParentsWhereATreeIsADetour) {
  // Both roots reach 3 by way of the other one's neighbour.
  const std::vector<PackedTree> trees = {{0, 1, {{0, 1}, {1, 2}, {2, 3}}},
                                         {1, 1, {{1, 2}, {2, 0}, {0, 3}}}};
  const Capacities capacities = {{{0, 1}, 1}, {{1, 2}, 2}, {{2, 3}, 1}, {{2, 0}, 1}, {{0, 3}, 1}};
  const std::vector<PackedTree> flat = flattened(trees, capacities);
  ASSERT_EQ(flat.size(), 2U);
  EXPECT_THAT(flat[0].links, ElementsAre(Pair(0, 1), Pair(0, 3), Pair(1, 2)));
  EXPECT_THAT(flat[1].links, ElementsAre(Pair(1, 2), Pair(2, 0), Pair(2, 3)));
}

TEST(Flattened, LeavesHopsFromTheirRootAsTheyAreWhereAsked) {
  // By an exchange at 3 the tree of 0 would gain two levels, and that of 1 lose one.
  const std::vector<PackedTree> trees = {{0, 1, {{0, 1}, {1, 2}, {2, 4}, {4, 3}}},
                                         {1, 1, {{1, 3}, {1, 0}, {0, 2}, {1, 4}}}};
  const Capacities capacities = {{{0, 1}, 1}, {{1, 2}, 1}, {{2, 4}, 1}, {{4, 3}, 1},
                                 {{1, 3}, 1}, {{1, 0}, 1}, {{0, 2}, 1}, {{1, 4}, 1}};
  for (const PackedTree& tree : flattened(trees, capacities, FirstHops::kDirect)) {
    const bool direct = std::ranges::count(tree.links, std::pair<Vertex, Vertex>{1, 3}) > 0;
    EXPECT_EQ(direct, tree.root == 1);
  }
}

TEST(Flattened, TakesCapacityThatNoTreeUses) {
  const std::vector<PackedTree> trees = {{0, 2, {{0, 1}, {1, 2}}}};
  const std::vector<PackedTree> flat = flattened(trees, {{{0, 1}, 2}, {{1, 2}, 2}, {{0, 2}, 1}});
  ASSERT_EQ(flat.size(), 2U) << "one of the two equal trees";
  EXPECT_THAT(flat[0].links, ElementsAre(Pair(0, 1), Pair(0, 2)));
  EXPECT_EQ(flat[0].weight, 1);
  EXPECT_THAT(flat[1].links, ElementsAre(Pair(0, 1), Pair(1, 2)));
}

TEST(Flattened, MakesTreesOfATorusAsFlatAsItIsWide) {
  const auto forest = grow(torus({8, 8}));
  ASSERT_TRUE(forest) << forest.error().what;
  for (const Tree& tree : forest->trees) EXPECT_EQ(height(tree), 8);
}

}  // namespace
}  // namespace tutti::topo::forest
