#include "src/sim/fabric.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::sim {
namespace {

using testing::ElementsAre;

TEST(UniformSwitch, JoinsTwoRanksByTheLinkUpOfOneAndTheLinkDownOfTheOther) {
  UniformSwitch fabric({.ranks = 3, .bandwidth = 25, .latency = 5});
  const auto path = fabric.path(2, 0, 0);
  ASSERT_TRUE(path) << path.error().what;
  ASSERT_THAT(*path, testing::SizeIs(2));
  const Link up = {25, 2.5, "rank 2 up"};
  const Link down = {25, 2.5, "rank 0 down"};
  EXPECT_EQ(fabric.links()[(*path)[0]], up);
  EXPECT_EQ(fabric.links()[(*path)[1]], down);
}

TEST(UniformSwitch, HasNoPathToARankThatDoesNotExist) {
  UniformSwitch fabric({.ranks = 3});
  EXPECT_FALSE(fabric.path(0, 3, 0));
  EXPECT_FALSE(fabric.path(-1, 0, 0));
  EXPECT_FALSE(fabric.path(1, 1, 0));
}

TEST(TwoLevelSwitch, TakesTheNetworkBetweenNodesOnly) {
  TwoLevelSwitch fabric({.nodes = 2, .ranks_per_node = 2});
  const auto name_of_first = [&](Rank from, Rank to) {
    return fabric.links()[fabric.path(from, to, 0)->front()].name;
  };
  const auto name_of_last = [&](Rank from, Rank to) {
    return fabric.links()[fabric.path(from, to, 0)->back()].name;
  };
  EXPECT_EQ(name_of_first(0, 1), "rank 0 up");
  EXPECT_EQ(name_of_last(0, 1), "rank 1 down");
  EXPECT_EQ(name_of_first(1, 2), "rank 1 to network");
  EXPECT_EQ(name_of_last(1, 2), "rank 2 from network");
}

}  // namespace
}  // namespace tutti::sim
