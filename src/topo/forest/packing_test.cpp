#include "src/topo/forest/packing.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tutti::topo::forest {
namespace {

/// Counts what the trees use and holds it against what there is.
void expect_packed(const std::vector<PackedTree>& trees, const std::vector<Vertex>& vertices,
                   const Capacities& capacities, const Demand& demand) {
  Capacities used;
  std::map<Vertex, std::int64_t> weight_of;
  for (const PackedTree& tree : trees) {
    EXPECT_GT(tree.weight, 0);
    weight_of[tree.root] += tree.weight;
    std::map<Vertex, int> reached = {{tree.root, 1}};
    for (const auto& ends : tree.links) {
      EXPECT_EQ(reached[ends.first], 1) << "a link from a vertex that is not reached yet";
      EXPECT_EQ(++reached[ends.second], 1) << "a vertex is reached twice";
      used[ends] += tree.weight;
    }
    for (const Vertex v : vertices) EXPECT_EQ(reached[v], 1);
  }
  EXPECT_EQ(weight_of.size(), demand.roots.size());
  for (const Vertex root : demand.roots) EXPECT_EQ(weight_of[root], demand.trees);
  for (const auto& [ends, amount] : used) {
    ASSERT_TRUE(capacities.contains(ends));
    EXPECT_LE(amount, capacities.at(ends));
  }
}

/// Capacities made of `trees` random spanning trees from each root: some packing is sure to exist,
/// and it uses all there is.
Capacities sum_of_random_trees(std::mt19937_64& random, const std::vector<Vertex>& vertices,
                               const Demand& demand) {
  Capacities capacities;
  for (const Vertex root : demand.roots) {
    for (std::int64_t left = demand.trees; left > 0;) {
      const std::int64_t weight =
          1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(left));
      left -= weight;
      std::vector<Vertex> reached = {root};
      std::vector<Vertex> missing;
      for (const Vertex v : vertices) {
        if (v != root) missing.push_back(v);
      }
      std::shuffle(missing.begin(), missing.end(), random);
      for (const Vertex to : missing) {
        capacities[{reached[random() % reached.size()], to}] += weight;
        reached.push_back(to);
      }
    }
  }
  return capacities;
}

TEST(Packing, FindsTreesThatUseUpAllCapacity) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    std::vector<Vertex> vertices;
    for (Vertex v = 0; v < 2 + random() % 7; ++v) vertices.push_back(2 * v + 1);  // gaps are fine
    Demand demand{{}, 1 + static_cast<std::int64_t>(random() % 12)};
    for (const Vertex v : vertices) {
      if (demand.roots.empty() || random() % 3 != 0) demand.roots.push_back(v);
    }
    const Capacities capacities = sum_of_random_trees(random, vertices, demand);
    const auto trees = pack(vertices, capacities, demand);
    ASSERT_TRUE(trees) << trees.error().what;
    expect_packed(*trees, vertices, capacities, demand);
  }
}

TEST(Packing, LeavesDirectHopsToTheirRootsWhereAsked) {
  // Grown first and alone, the tree of 0 would reach 3 over the only link from 1 that leads there.
  const Capacities capacities = {{{0, 1}, 2}, {{1, 0}, 1}, {{1, 2}, 2}, {{1, 3}, 1}, {{2, 3}, 1}};
  const auto trees = pack({0, 1, 2, 3}, capacities, {{0, 1}, 1}, FirstHops::kDirect);
  ASSERT_TRUE(trees) << trees.error().what;
  expect_packed(*trees, {0, 1, 2, 3}, capacities, {{0, 1}, 1});
  for (const PackedTree& tree : *trees) {
    const bool direct = std::ranges::count(tree.links, std::pair<Vertex, Vertex>{1, 3}) > 0;
    EXPECT_EQ(direct, tree.root == 1);
  }
}

TEST(Packing, SplitsEqualTreesWhereNoLinkHasRoomForAll) {
  // Ten trees from 0, of which seven can go 0-1-2 and three 0-2-1.
  const Capacities capacities = {{{0, 1}, 7}, {{0, 2}, 3}, {{1, 2}, 7}, {{2, 1}, 3}};
  const Demand demand{{0}, 10};
  const auto trees = pack({0, 1, 2}, capacities, demand);
  ASSERT_TRUE(trees) << trees.error().what;
  EXPECT_EQ(trees->size(), 2U);
  expect_packed(*trees, {0, 1, 2}, capacities, demand);
}

TEST(Packing, TakesOneTreeForManyEqualOnes) {
  const std::int64_t many = std::int64_t{1} << 40U;
  const auto trees = pack({0, 1}, {{{0, 1}, many}, {{1, 0}, many}}, {{0, 1}, many});
  ASSERT_TRUE(trees) << trees.error().what;
  EXPECT_EQ(trees->size(), 2U);
}

TEST(Packing, SaysWhenTheCapacitiesAreTooSmall) {
  const auto trees = pack({0, 1, 2}, {{{0, 1}, 2}, {{1, 2}, 1}}, {{0}, 2});
  ASSERT_FALSE(trees);
  EXPECT_EQ(trees.error().code, Code::kInternal);
}

}  // namespace
}  // namespace tutti::topo::forest
