#include "src/sim/bounds.hpp"

#include <gtest/gtest.h>

namespace tutti::sim {
namespace {

ir::Request request(Collective collective, std::int32_t ranks) {
  return {collective, ranks, 0, false};
}

TEST(Bounds, OfAllReduceOnASwitchAreThoseOfTheBooks) {
  const UniformSwitch::Shape network = {.ranks = 12, .bandwidth = 25, .latency = 5};
  const auto bound = [&](double bytes) {
    return uniform_bound(request(Collective::kAllReduce, 12), bytes, network,
                         {.ports = 1, .reduce_ps_per_byte = 2});
  };
  EXPECT_DOUBLE_EQ(bound(1e3).latency, 20);
  EXPECT_DOUBLE_EQ(bound(1e3).time(), 20);
  EXPECT_NEAR(bound(1e6).bandwidth, 73.3, 0.05);
  EXPECT_NEAR(bound(1e9).time(), 73333, 0.5);
  EXPECT_NEAR(bound(1e6).compute, 1e6 * 11 / 12 * 2e-6, 1e-9);
}

TEST(Bounds, CountRoundsByPorts) {
  const UniformSwitch::Shape network = {.ranks = 27, .bandwidth = 25, .latency = 1};
  const auto latency = [&](std::int32_t ranks, std::uint32_t ports) {
    return uniform_bound(request(Collective::kBroadcast, ranks), 0, network, {.ports = ports})
        .latency;
  };
  EXPECT_EQ(latency(1, 1), 0);
  EXPECT_EQ(latency(2, 1), 1);
  EXPECT_EQ(latency(27, 1), 5);
  EXPECT_EQ(latency(27, 2), 3);
  EXPECT_EQ(latency(28, 2), 4);
  EXPECT_EQ(latency(27, 26), 1);
  EXPECT_EQ(latency(27, 0), 1);
}

TEST(Bounds, DependOnWhatACollectiveMustMove) {
  const UniformSwitch::Shape network = {.ranks = 4, .bandwidth = 1, .latency = 0};
  const auto bandwidth = [&](Collective collective) {
    return uniform_bound(request(collective, 4), 4e3, network).bandwidth;
  };
  EXPECT_DOUBLE_EQ(bandwidth(Collective::kAllReduce), 6);
  for (const Collective all : {Collective::kBroadcast, Collective::kReduce})
    EXPECT_DOUBLE_EQ(bandwidth(all), 4);
  for (const Collective blocks : {Collective::kAllGather, Collective::kReduceScatter,
                                  Collective::kAllToAll, Collective::kGather, Collective::kScatter})
    EXPECT_DOUBLE_EQ(bandwidth(blocks), 3);
}

TEST(Bounds, BetweenNodesAreSetByTheNetworkInterfaces) {
  // Eight nodes of eight: 450 GB/s within, 50 GB/s a rank between.
  const TwoLevelSwitch::Shape network = {.nodes = 8, .ranks_per_node = 8};
  const auto bandwidth = [&](Collective collective) {
    return two_level_bound(request(collective, 64), 1e9, network).bandwidth;
  };
  EXPECT_NEAR(bandwidth(Collective::kAllReduce), 4375, 1e-6);
  EXPECT_NEAR(bandwidth(Collective::kAllGather), 2187.5, 1e-6);
  EXPECT_NEAR(bandwidth(Collective::kAllToAll), 8 * 2187.5, 1e-6);
}

TEST(Bounds, WithinOneNodeAreThoseOfASwitch) {
  const TwoLevelSwitch::Shape network = {.nodes = 1, .ranks_per_node = 8};
  const auto bound =
      two_level_bound(request(Collective::kAllReduce, 8), 450e3, network, {.ports = 1});
  EXPECT_DOUBLE_EQ(bound.bandwidth, 1.75);
  EXPECT_DOUBLE_EQ(bound.latency, 3);
}

TEST(Bounds, OnLatencyLetAllRanksOfANodeTellOtherNodes) {
  const TwoLevelSwitch::Shape network = {
      .nodes = 5, .ranks_per_node = 4, .inner_latency = 1, .outer_latency = 10};
  const auto latency = [&](std::int32_t nodes) {
    auto shape = network;
    shape.nodes = nodes;
    return two_level_bound(request(Collective::kAllGather, 4 * nodes), 0, shape, {.ports = 1})
        .latency;
  };
  EXPECT_EQ(latency(5), 10);
  EXPECT_EQ(latency(6), 20);
}

TEST(Bounds, OfAllReduceAreTheVectorItselfWhereTheSwitchAdds) {
  const UniformSwitch::Shape network = {
      .ranks = 12, .bandwidth = 25, .latency = 5, .aggregation = topo::Aggregation{}};
  const auto bound = [&](Collective collective, const BoundCosts& costs) {
    return uniform_bound(request(collective, 12), 1e6, network, costs);
  };
  const BoundCosts adding = {.reduce_ps_per_byte = 2};
  EXPECT_DOUBLE_EQ(bound(Collective::kAllReduce, adding).bandwidth, 40);
  EXPECT_DOUBLE_EQ(bound(Collective::kAllReduce, adding).compute, 0);
  EXPECT_NEAR(bound(Collective::kReduceScatter, adding).bandwidth, 40.0 * 11 / 12, 1e-9);
  const BoundCosts ported = {.ports = 1, .reduce_ps_per_byte = 2};
  EXPECT_NEAR(bound(Collective::kAllReduce, ported).bandwidth, 80.0 * 11 / 12, 1e-9);
}

TEST(Bounds, BetweenNodesFallOnlyWhereTheNetworkBetweenThemAdds) {
  TwoLevelSwitch::Shape network = {.nodes = 4,
                                   .ranks_per_node = 8,
                                   .inner_bandwidth = 450,
                                   .outer_bandwidth = 50,
                                   .inner_aggregation = topo::Aggregation{}};
  const auto bandwidth = [&] {
    return two_level_bound(request(Collective::kAllReduce, 32), 4e6, network).bandwidth;
  };
  EXPECT_NEAR(bandwidth(), 2 * 3.0 / 4 * 4e6 / 400 / 1e3, 1e-9);
  network.outer_aggregation = topo::Aggregation{};
  EXPECT_NEAR(bandwidth(), 4e6 / 400 / 1e3, 1e-9);
}

}  // namespace
}  // namespace tutti::sim
