#include "src/topo/forest/network.hpp"

#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/topo/forest/forest.hpp"
#include "src/topo/forest/sample_networks.hpp"

namespace tutti::topo::forest {
namespace {

using ::testing::HasSubstr;

void expect_refused(const Network& network, const std::string& why) {
  const auto status = check(network);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kInvalidArgument);
  EXPECT_THAT(status.error().what, HasSubstr(why));
  EXPECT_EQ(grow(network).error(), status.error());
}

TEST(Network, IsRefusedWithoutComputeNodes) {
  expect_refused({}, "none of the network's 0 nodes computes");
  expect_refused({{{"s", false}}, {}, 1}, "none of the network's 1 nodes computes");
}

TEST(Network, IsRefusedWithLinksThatLeadNowhere) {
  Network network = torus({3});
  network.links[1].to = 3;
  expect_refused(network, "link 1 leads from node 1 to node 3 of 3 nodes");
  network.links[1].to = network.links[1].from;
  expect_refused(network, "link 1 leads from n1 to itself");
}

TEST(Network, IsRefusedWithAbsurdCapacities) {
  Network network = torus({3});
  network.links[2].capacity = -1;
  expect_refused(network, "has capacity -1");
  network.links[2].capacity = kMostTotalCapacity + 1;
  expect_refused(network, "count in larger units");
  for (Network::Link& link : network.links) link.capacity = kMostTotalCapacity / 2;
  expect_refused(network, "the links up to number 2 have a capacity of");
}

TEST(Network, IsRefusedWhenItIsTooLarge) {
  Network network;
  network.nodes.assign(kMostVertices + 1, {"n", true});
  expect_refused(network, "has 4097 nodes");
}

TEST(Network, IsRefusedWithTheNameOfARankThatIsNotReached) {
  NetworkBuilder build;
  const Vertex a = build.computes("a");
  const Vertex b = build.computes("b");
  build.computes("far");
  build.both_ways(a, b, 1);
  expect_refused(std::move(build).finish(), "no path with capacity leads from a to far");
}

TEST(Network, IsRefusedWithTheNameOfARankThatReachesNobody) {
  Network network = torus({3});
  for (Network::Link& link : network.links) {
    if (link.from == 2) link.capacity = 0;
  }
  expect_refused(network, "no path with capacity leads from n2 to n0");
}

TEST(Network, MayHaveSwitchesThatLeadNowhere) {
  NetworkBuilder build;
  const Vertex a = build.computes("a");
  const Vertex b = build.computes("b");
  build.both_ways(a, b, 1);
  build.both_ways(a, build.switches("unused"), 5);
  build.switches("alone");
  const auto forest = grow(std::move(build).finish());
  ASSERT_TRUE(forest) << forest.error().what;
  EXPECT_EQ(forest->time, (Ratio{1, 2}));
}

TEST(Balance, IsAskedOfSwitchesAndNotOfRanks) {
  NetworkBuilder build;
  const Vertex a = build.computes("a");
  const Vertex b = build.computes("b");
  const Vertex s = build.switches("s");
  build.both_ways(a, s, 2);
  build.both_ways(b, s, 2);
  build.one_way(a, b, 7);
  Network network = std::move(build).finish();
  EXPECT_TRUE(check_balance(network));
  EXPECT_EQ(balanced(network), network);
  network.links[0].capacity = 1;
  const auto refused = grow(network);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().what,
              HasSubstr("links of capacity 5 lead into switch s and 8 out of it"));
}

TEST(Balance, TakesTheSlowerDirectionOfLinksAtSwitches) {
  NetworkBuilder build;
  const Vertex a = build.computes("a");
  const Vertex b = build.computes("b");
  const Vertex s = build.switches("s");
  build.one_way(a, s, 3);
  build.one_way(s, a, 1);
  build.both_ways(b, s, 2);
  build.one_way(a, b, 7);
  const Network even = balanced(std::move(build).finish());
  EXPECT_TRUE(check_balance(even));
  for (const Network::Link& link : even.links) {
    const bool direct = link.from == a && link.to == b;
    const bool weak = link.from == a || link.to == a;
    EXPECT_EQ(link.capacity, direct ? 14 : weak ? 2 : 4);
  }
}

TEST(Balance, IsPossibleOnlyBySparingWhatASwitchCannotCopy) {
  // Three ranks send 45 units into a switch that could send 48 out. All cuts would allow a time
  // of 3/16, but each of 4 ranks has to get 12 units then, and the switch has only 45 to give.
  NetworkBuilder build;
  const Vertex s = build.switches("s");
  for (int i = 0; i < 4; ++i) {
    const Vertex rank = build.computes(fmt::format("r{}", i));
    build.one_way(rank, s, i == 0 ? 1.5 : 2);
    build.one_way(s, rank, 2);
  }
  const Network network = std::move(build).finish();
  EXPECT_EQ(find_optimum(network)->time, (Ratio{3, 4}));
  EXPECT_FALSE(grow(network));
  const auto forest = grow(balanced(network));
  ASSERT_TRUE(forest) << forest.error().what;
  EXPECT_EQ(forest->time, (Ratio{1, 1}));
}

}  // namespace
}  // namespace tutti::topo::forest
