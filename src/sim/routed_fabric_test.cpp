#include "src/sim/routed_fabric.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::sim {
namespace {

using testing::ElementsAre;

TEST(RoutedFabric, LeadsALaneOverItsOwnLinksAndOthersAsBefore) {
  UniformSwitch below({.ranks = 3, .bandwidth = 25, .latency = 5});
  const std::vector<LanePath> paths = {{.from = 0, .to = 1, .lane = 2, .links = {0, 5, 4, 3}}};
  RoutedFabric fabric(below, paths);
  EXPECT_THAT(*fabric.path(0, 1, 2), ElementsAre(0, 5, 4, 3));
  EXPECT_THAT(*fabric.path(0, 1, 0), ElementsAre(0, 3));
  EXPECT_THAT(*fabric.path(1, 0, 2), ElementsAre(2, 1));
  EXPECT_EQ(fabric.ranks(), 3);
  EXPECT_EQ(fabric.links().size(), below.links().size());
}

TEST(RoutedFabric, KnowsNoRanksThatTheFabricBelowDoesNotKnow) {
  UniformSwitch below({.ranks = 3});
  RoutedFabric fabric(below, {});
  EXPECT_FALSE(fabric.path(0, 3, 0));
}

}  // namespace
}  // namespace tutti::sim
