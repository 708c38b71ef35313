// The two trees as seen in the messages of the all-reduce: tree t uses lane t.
#include <array>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"

namespace tutti::algorithms {
namespace {

/// (parent, child)
using Edges = std::set<std::pair<Rank, Rank>>;

/// Results travel down: an edge is a send of output.
std::array<Edges, 2> trees(Rank ranks) {
  std::array<Edges, 2> edges;
  const auto schedule = double_binary_tree().generate({.ranks = ranks});
  EXPECT_TRUE(schedule);
  for (Rank rank = 0; rank < ranks; ++rank) {
    for (const ir::Step& step : schedule->programs[static_cast<std::size_t>(rank)].steps) {
      const bool down = step.verb == ir::Verb::kSend && step.src.space == ir::Space::kOutput;
      if (down) edges.at(step.lane).insert({rank, step.peer});
    }
  }
  return edges;
}

std::set<Rank> inner(const Edges& tree) {
  std::set<Rank> parents;
  for (const auto& [parent, child] : tree) parents.insert(parent);
  return parents;
}

TEST(DoubleBinaryTree, HasTheTreesOfTheLiteratureAtFiveAndEightRanks) {
  EXPECT_EQ(trees(5)[0], (Edges{{0, 4}, {4, 2}, {2, 1}, {2, 3}}));
  EXPECT_EQ(trees(5)[1], (Edges{{1, 0}, {0, 3}, {3, 2}, {3, 4}})) << "shifted by one";
  EXPECT_EQ(trees(8)[0], (Edges{{0, 4}, {4, 2}, {4, 6}, {2, 1}, {2, 3}, {6, 5}, {6, 7}}));
  EXPECT_EQ(trees(8)[1], (Edges{{7, 3}, {3, 5}, {3, 1}, {5, 6}, {5, 4}, {1, 2}, {1, 0}}))
      << "mirrored";
}

TEST(DoubleBinaryTree, HasAtMostFourEdgesARankAndFewRanksInsideBothTrees) {
  for (Rank ranks = 2; ranks <= 64; ++ranks) {
    SCOPED_TRACE(fmt::format("n={}", ranks));
    std::vector<int> degree(static_cast<std::size_t>(ranks), 0);
    const auto both = trees(ranks);
    for (const Edges& tree : both) {
      EXPECT_EQ(tree.size(), static_cast<std::size_t>(ranks - 1));
      for (const auto& [parent, child] : tree) {
        ++degree[static_cast<std::size_t>(parent)];
        ++degree[static_cast<std::size_t>(child)];
      }
    }
    for (const int edges : degree) EXPECT_LE(edges, 4);
    // Even n: no rank is inside both. Odd n: rank 0 alone.
    std::set<Rank> inside_both;
    for (const Rank rank : inner(both[0])) {
      if (inner(both[1]).contains(rank)) inside_both.insert(rank);
    }
    EXPECT_EQ(inside_both, ranks % 2 == 0 ? std::set<Rank>{} : std::set<Rank>{0});
  }
}

}  // namespace
}  // namespace tutti::algorithms
