#include "tools/fabric/fabric.hpp"

#include <limits>
#include <random>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/result.hpp"
#include "src/topo/model/fabric_graph.hpp"
#include "src/topo/model/paths.hpp"

namespace tutti::topo {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

/// A CPU and so many NICs of 50 GB/s.
Parts host_parts(int nics) {
  Parts parts;
  parts.hosts.push_back({"host", {}});
  parts.nodes.push_back({NodeKind::kCpu, 0, "cpu0", {}});
  for (int i = 0; i < nics; ++i) {
    const auto nic = static_cast<NodeId>(parts.nodes.size());
    parts.nodes.push_back({NodeKind::kNic, 0, fmt::format("nic{}", i), {{"speed", "400000"}}});
    parts.links.push_back({0, nic, LinkKind::kPci, 63, 0.25});
    parts.links.push_back({nic, 0, LinkKind::kPci, 63, 0.25});
  }
  return parts;
}

Topology host(int nics) { return *Topology::create(host_parts(nics)); }

FabricShape shape_of(FabricKind kind, std::uint32_t hosts) {
  FabricShape shape;
  shape.kind = kind;
  shape.hosts = hosts;
  return shape;
}

Topology joined(const Topology& unit, const FabricShape& shape) {
  auto topology = join(unit, shape);
  EXPECT_TRUE(topology) << topology.error().what;
  return *std::move(topology);
}

std::string refusal(const Topology& unit, const FabricShape& shape) {
  const auto topology = join(unit, shape);
  return topology ? "accepted" : topology.error().what;
}

double bisection(const Topology& topology, const std::vector<bool>& on_left) {
  return Bisection(topology, on_left).flow();
}

std::vector<bool> first_half(std::size_t hosts) {
  std::vector<bool> left(hosts);
  std::fill_n(left.begin(), hosts / 2, true);
  return left;
}

/// Numbers of cables to switches that the named switches have.
std::vector<std::size_t> degrees(const Topology& topology, std::string_view part) {
  std::vector<std::size_t> all;
  for (const NodeId id : switches_named(topology, part))
    all.push_back(cables_to_switches(topology, id));
  return all;
}

NodeId node_named(const Topology& topology, std::string_view name) {
  for (NodeId id = 0; id < topology.nodes().size(); ++id)
    if (full_name(topology, id) == name) return id;
  ADD_FAILURE() << "no node " << name;
  return 0;
}

TEST(Fabric, CopiesHostsWithTheirPartsUnderNumberedNames) {
  const Topology topology = joined(host(2), shape_of(FabricKind::kFatTree, 3));
  ASSERT_EQ(topology.hosts().size(), 3U);
  EXPECT_EQ(topology.hosts()[2].name, "h2");
  EXPECT_EQ(nodes_of_kind(topology, NodeKind::kNic).size(), 6U);
  EXPECT_EQ(full_name(topology, topology.nodes_of(1)[2]), "h1/nic1");
}

TEST(Fabric, CopiesRacksOfSeveralHostsWithWhatLiesBetweenThem) {
  Parts rack = host_parts(1);
  rack.hosts.push_back({"second", {}});
  rack.nodes.push_back({NodeKind::kGpu, 1, "gpu0", {}});
  rack.nodes.push_back({NodeKind::kNvswitch, kNoHost, "nvswitch", {}});
  rack.links.push_back({2, 3, LinkKind::kNvlink, 900, 0.35});
  rack.links.push_back({3, 2, LinkKind::kNvlink, 900, 0.35});
  const Topology topology =
      joined(*Topology::create(std::move(rack)), shape_of(FabricKind::kRailOnly, 2));
  EXPECT_EQ(topology.hosts()[3].name, "h1.second");
  EXPECT_EQ(switches_named(topology, "h1.nvswitch").size(), 1U);
}

TEST(FatTree, HasTheSwitchesOfTheKAryTree) {
  // Al-Fares et al.: k = 4 has k^2/2 switches in each of the lower layers and k^2/4 cores.
  FabricShape shape = shape_of(FabricKind::kFatTree, 16);
  shape.radix = 4;
  const Topology topology = joined(host(1), shape);
  EXPECT_EQ(switches_named(topology, "leaf").size(), 8U);
  EXPECT_EQ(switches_named(topology, "spine").size(), 8U);
  EXPECT_EQ(switches_named(topology, "core").size(), 4U);
  EXPECT_THAT(degrees(topology, "core"), Each(4U));
}

TEST(FatTree, NeverUsesMorePortsThanASwitchHas) {
  for (const std::uint32_t radix : {4U, 6U, 8U, 64U})
    for (const std::uint32_t hosts : {2U, 5U, 9U, 16U, 31U}) {
      FabricShape shape = shape_of(FabricKind::kFatTree, hosts);
      shape.radix = radix;
      const auto topology = join(host(1), shape);
      if (!topology) continue;  // too many hosts for it, which others test
      for (const NodeId id : switches_named(*topology))
        EXPECT_LE(topology->links_from(id).size(), radix) << full_name(*topology, id);
    }
}

TEST(FatTree, WithoutOversubscriptionIsAsWideInItsMiddleAsHalfOfAllNics) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  for (const auto kind : {FabricKind::kFatTree, FabricKind::kRailOptimised, FabricKind::kDualPlane})
    for (const std::uint32_t hosts : {4U, 8U, 12U}) {
      FabricShape shape = shape_of(kind, hosts);
      shape.radix = 6;
      const Topology topology = joined(host(2), shape);
      std::vector<bool> left = first_half(hosts);
      EXPECT_NEAR(bisection(topology, left), hosts / 2 * 100, 1e-3) << name_of(kind) << hosts;
      std::shuffle(left.begin(), left.end(), random);
      EXPECT_NEAR(bisection(topology, left), hosts / 2 * 100, 1e-3) << name_of(kind) << hosts;
    }
}

TEST(FatTree, OversubscribedTwofoldHasHalfTheWidthBetweenLeaves) {
  FabricShape shape = shape_of(FabricKind::kFatTree, 8);
  shape.radix = 6;  // 4 down, 2 up
  shape.oversubscription = 2;
  const Topology topology = joined(host(1), shape);
  EXPECT_EQ(switches_named(topology, "leaf").size(), 2U);
  EXPECT_NEAR(bisection(topology, first_half(8)), 2 * 50, 1e-3);
}

TEST(FatTree, OversubscribedAboveItsPodsIsNarrowThereAlone) {
  FabricShape shape = shape_of(FabricKind::kFatTree, 24);
  shape.radix = 6;  // leaves 3 down, 3 up; spines 4 down, 2 up: pods of 4 leaves
  shape.core_oversubscription = 2;
  const Topology topology = joined(host(1), shape);
  EXPECT_EQ(switches_named(topology, "leaf").size(), 8U);
  EXPECT_NEAR(bisection(topology, first_half(24)), 12 * 50 / 2, 1e-3);
}

TEST(RailOptimised, PutsOneRailOfNearbyHostsOnALeaf) {
  FabricShape shape = shape_of(FabricKind::kRailOptimised, 4);
  shape.radix = 8;
  const Topology topology = joined(host(4), shape);
  PathFinder paths(topology);
  const auto links = [&](std::string_view from, std::string_view to) {
    return paths.find(node_named(topology, from), node_named(topology, to)).links.size();
  };
  EXPECT_EQ(links("h0/nic2", "h3/nic2"), 2U);  // the leaf
  EXPECT_EQ(links("h0/nic2", "h3/nic1"), 4U);  // leaf, spine, leaf
}

TEST(RailOnly, JoinsNoTwoRails) {
  const Topology topology = joined(host(2), shape_of(FabricKind::kRailOnly, 4));
  PathFinder paths(topology);
  const NodeId from = node_named(topology, "h0/nic0");
  EXPECT_EQ(distances(topology, from)[node_named(topology, "rail0.leaf0")], 1);
  EXPECT_EQ(distances(topology, from)[node_named(topology, "rail1.leaf0")], -1);
}

TEST(DualPlane, SharesEachNicBetweenNetworksThatDoNotMeet) {
  FabricShape shape = shape_of(FabricKind::kDualPlane, 8);
  shape.radix = 4;
  const Topology topology = joined(host(1), shape);
  const auto distance = distances(topology, node_named(topology, "plane0.leaf0"));
  for (const NodeId id : switches_named(topology, "plane1.")) EXPECT_EQ(distance[id], -1);
  for (const NodeId nic : nodes_of_kind(topology, NodeKind::kNic)) {
    double width = 0;
    for (const LinkId link : topology.links_from(nic))
      if (topology.link(link).kind == LinkKind::kNetwork) {
        EXPECT_EQ(topology.link(link).bandwidth, 25);
        width += topology.link(link).bandwidth;
      }
    EXPECT_EQ(width, 50);
  }
}

TEST(Dragonfly, OfFullSizeJoinsEachPairOfGroupsOnceAndHasDiameterThree) {
  FabricShape shape = shape_of(FabricKind::kDragonfly, 72);
  shape.routers = 4;
  shape.terminals = 2;
  shape.global = 2;  // 4 * 2 + 1 groups
  const Topology topology = joined(host(1), shape);
  const auto routers = switches_named(topology);
  ASSERT_EQ(routers.size(), 36U);
  EXPECT_THAT(degrees(topology, "router"), Each(3U + 2U));
  EXPECT_EQ(diameter(topology, routers), 3);
  std::set<std::pair<NodeId, NodeId>> pairs;
  std::size_t global = 0;
  for (const Link& link : topology.links()) {
    const auto a = (link.from - routers[0]) / 4, b = (link.to - routers[0]) / 4;
    if (link.from < routers[0] || link.to < routers[0] || a == b) continue;
    pairs.insert({a, b});
    ++global;
  }
  EXPECT_EQ(pairs.size(), 9U * 8U);
  EXPECT_EQ(global, pairs.size());
}

TEST(Dragonfly, OfFewGroupsJoinsEachPairByEquallyManyCables) {
  FabricShape shape = shape_of(FabricKind::kDragonfly, 24);
  shape.routers = 4;
  shape.terminals = 2;
  shape.global = 2;  // 8 cables of a group to two others
  const Topology topology = joined(host(1), shape);
  EXPECT_THAT(degrees(topology, "router"), Each(3U + 2U));
}

TEST(DragonflyPlus, HasLeavesThreeStepsApartAndSpinesWithGlobalCables) {
  FabricShape shape = shape_of(FabricKind::kDragonflyPlus, 40);
  shape.routers = 2;
  shape.spines = 2;
  shape.terminals = 4;
  shape.global = 2;  // 5 groups
  const Topology topology = joined(host(1), shape);
  EXPECT_EQ(switches_named(topology).size(), 20U);
  EXPECT_EQ(diameter(topology, switches_named(topology, "leaf")), 3);
  EXPECT_THAT(degrees(topology, "spine"), Each(4U));
}

TEST(TorusFabric, HasTwoNeighboursInEachDimension) {
  FabricShape shape = shape_of(FabricKind::kTorus, 64);
  shape.sizes = {4, 4, 4};
  const Topology topology = joined(host(1), shape);
  const auto routers = switches_named(topology);
  EXPECT_THAT(degrees(topology, "router"), Each(6U));
  EXPECT_EQ(diameter(topology, routers), 6);
}

TEST(TorusFabric, WithoutItsWrapAroundIsAMesh) {
  FabricShape shape = shape_of(FabricKind::kTorus, 12);
  shape.sizes = {4, 3};
  shape.wrap = 0;
  const Topology topology = joined(host(1), shape);
  EXPECT_EQ(diameter(topology, switches_named(topology)), 3 + 2);
}

/// A host of four chips in a square, with links of 50 GB/s of their own.
Topology chips() {
  Parts parts;
  parts.hosts.push_back({"host", {{"block", "2x2"}}});
  for (int i = 0; i < 4; ++i)
    parts.nodes.push_back({NodeKind::kGpu, 0, fmt::format("tpu{}", i), {{"ici", "50"}}});
  return *Topology::create(std::move(parts));
}

TEST(TorusFabric, TilesChipsByTheBlocksOfTheirHosts) {
  FabricShape shape = shape_of(FabricKind::kTorus, 4);
  shape.sizes = {4, 4};
  const Topology topology = joined(chips(), shape);
  const auto near = distances(topology, node_named(topology, "h0/tpu3"));
  EXPECT_EQ(near[node_named(topology, "router1.1")], 1);
  EXPECT_EQ(distances(topology, node_named(topology, "h3/tpu0"))[node_named(topology, "router2.2")],
            1);
  PathFinder paths(topology);
  const Path path = paths.find(node_named(topology, "h0/tpu3"), node_named(topology, "h1/tpu2"));
  EXPECT_EQ(path.kind, PathKind::kNvlink);
  EXPECT_EQ(path.bandwidth, 50);
  EXPECT_EQ(path.links.size(), 3U);  // to the router, to its neighbour, to the chip
}

TEST(TorusFabric, RefusesWhatDoesNotFillOrTileIt) {
  FabricShape shape = shape_of(FabricKind::kTorus, 5);
  shape.sizes = {4, 4};
  EXPECT_THAT(refusal(chips(), shape),
              HasSubstr("a torus of 4x4 has 16 places, but the hosts fill 20"));
  shape.hosts = 3;
  shape.sizes = {12, 1};
  EXPECT_THAT(refusal(chips(), shape),
              HasSubstr("lie as 2x2, which does not tile a torus of 12x1"));
}

TEST(HammingMesh, GivesEachPlaceFourCablesAndEachLineASwitch) {
  FabricShape shape = shape_of(FabricKind::kHammingMesh, 24);
  shape.sizes = {2, 3};
  shape.board = {2, 2};
  const Topology topology = joined(host(1), shape);
  EXPECT_THAT(degrees(topology, "router"), Each(4U));
  EXPECT_EQ(degrees(topology, "row"), std::vector<std::size_t>(4, 2 * 3));
  EXPECT_EQ(degrees(topology, "column"), std::vector<std::size_t>(6, 2 * 2));
  EXPECT_GT(diameter(topology, switches_named(topology)), 0);
}

TEST(Bcube, HasASwitchOfEachLevelAtEachHost) {
  FabricShape shape = shape_of(FabricKind::kBcube, 64);
  shape.ports = 4;
  shape.levels = 3;
  const Topology topology = joined(host(1), shape);
  EXPECT_EQ(switches_named(topology, "switch").size(), 3U * 16U);
  EXPECT_THAT(degrees(topology, "switch"), Each(4U));
  EXPECT_THAT(degrees(topology, "router"), Each(3U));
  // One digit after the other is corrected, each through a switch.
  EXPECT_EQ(diameter(topology, switches_named(topology, "router")), 2 * 3);
}

TEST(Dcell, JoinsEachPairOfCellsOnce) {
  FabricShape shape = shape_of(FabricKind::kDcell, 20);
  shape.ports = 4;
  shape.levels = 1;
  const Topology topology = joined(host(1), shape);
  EXPECT_EQ(switches_named(topology, "switch").size(), 5U);
  EXPECT_THAT(degrees(topology, "router"), Each(2U));
  const auto routers = switches_named(topology, "router");
  std::set<std::pair<std::size_t, std::size_t>> cells;
  const auto index = [&](NodeId id) {
    return static_cast<std::size_t>(std::ranges::find(routers, id) - routers.begin());
  };
  for (const Link& link : topology.links())
    if (index(link.from) < 20 && index(link.to) < 20)
      cells.insert({index(link.from) / 4, index(link.to) / 4});
  EXPECT_EQ(cells.size(), 5U * 4U);
}

TEST(Dcell, OfTwoLevelsHasFourHundredAndTwentyHosts) {
  FabricShape shape = shape_of(FabricKind::kDcell, 420);
  shape.ports = 4;
  shape.levels = 2;
  const Topology topology = joined(host(1), shape);
  EXPECT_THAT(degrees(topology, "router"), Each(3U));
  shape.hosts = 400;
  EXPECT_THAT(refusal(host(1), shape), HasSubstr("has 420 places, but the hosts fill 400"));
  shape.levels = 16;
  EXPECT_THAT(refusal(host(1), shape), HasSubstr("more than 65536 places"));
}

TEST(Jellyfish, IsRegularConnectedAndTheSameForTheSameSeed) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    FabricShape shape = shape_of(FabricKind::kJellyfish, 80);
    shape.terminals = 4;
    shape.degree = 5;
    shape.seed = seed;
    const Topology topology = joined(host(1), shape);
    EXPECT_THAT(degrees(topology, "switch"), Each(5U)) << "seed " << seed;
    EXPECT_GT(diameter(topology, switches_named(topology)), 1) << "seed " << seed;
    EXPECT_EQ(topology, joined(host(1), shape));
    shape.seed = seed + 1;
    EXPECT_FALSE(topology == joined(host(1), shape)) << "seed " << seed;
  }
}

TEST(Jellyfish, IsRegularWhereItIsNearlyComplete) {
  for (const std::uint32_t degree : {20U, 28U, 30U}) {
    FabricShape shape = shape_of(FabricKind::kJellyfish, 64);
    shape.terminals = 2;  // 32 switches
    shape.degree = degree;
    EXPECT_THAT(degrees(joined(host(1), shape), "switch"), Each(degree));
  }
}

TEST(Jellyfish, OfAsManySwitchesAsItCanBeIsComplete) {
  FabricShape shape = shape_of(FabricKind::kJellyfish, 12);
  shape.terminals = 2;
  shape.degree = 5;
  const Topology topology = joined(host(1), shape);
  EXPECT_THAT(degrees(topology, "switch"), Each(5U));
  EXPECT_EQ(diameter(topology, switches_named(topology)), 1);
}

TEST(Bigraph, JoinsEachUpperSwitchWithEachLowerOne) {
  FabricShape shape = shape_of(FabricKind::kBigraph, 32);
  shape.radix = 16;
  shape.terminals = 8;
  const Topology topology = joined(host(1), shape);
  EXPECT_EQ(switches_named(topology, "upper").size(), 2U);
  EXPECT_THAT(degrees(topology, "upper"), Each(8U));
  EXPECT_EQ(diameter(topology, switches_named(topology)), 2);
  std::vector<bool> on_lower(32);
  for (std::size_t i = 0; i < on_lower.size(); ++i) on_lower[i] = i / 8 % 2 == 0;
  EXPECT_NEAR(bisection(topology, on_lower), 16 * 50, 1e-3);
}

TEST(OpticalRing, JoinsEachHostWithTheNext) {
  FabricShape shape = shape_of(FabricKind::kOpticalRing, 8);
  shape.link = 200;
  const Topology topology = joined(host(1), shape);
  EXPECT_THAT(degrees(topology, "router"), Each(2U));
  EXPECT_EQ(diameter(topology, switches_named(topology)), 4);
}

TEST(Fabric, HoldsTenThousandGpusOnRails) {
  FabricShape shape = shape_of(FabricKind::kRailOptimised, 1280);
  const Topology topology = joined(host(8), shape);
  EXPECT_EQ(nodes_of_kind(topology, NodeKind::kNic).size(), 10240U);
  EXPECT_EQ(switches_named(topology, "leaf").size(), 320U);  // 40 groups of 32 hosts, 8 rails
  EXPECT_EQ(switches_named(topology, "spine").size(), 320U);
  EXPECT_EQ(switches_named(topology, "core").size(), 256U);
}

TEST(Fabric, RefusesValuesBeyondTheirRangesAndNamesThem) {
  FabricShape shape = shape_of(FabricKind::kFatTree, 0);
  EXPECT_THAT(refusal(host(1), shape), HasSubstr("0 hosts: a fabric joins from 1 to 65536"));
  shape.hosts = 4;
  shape.radix = 5000;
  EXPECT_THAT(refusal(host(1), shape), HasSubstr("radix is 5000, but must be from 2 to 1024"));
  shape.radix = 64;
  shape.oversubscription = 0.5;
  EXPECT_THAT(refusal(host(1), shape), HasSubstr("oversubscription is 0.5, but must be from 1"));
  shape.oversubscription = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(refusal(host(1), shape), HasSubstr("oversubscription is nan"));
  EXPECT_THAT(refusal(host(1), shape_of(FabricKind::kTorus, 4)), HasSubstr("a torus needs sizes"));
  shape = shape_of(FabricKind::kFatTree, 65536);
  EXPECT_THAT(refusal(host(16), shape), HasSubstr("65536 hosts would have 1114112 nodes"));
}

TEST(Fabric, RefusesHostsThatItsSwitchesHaveTooFewPortsFor) {
  FabricShape shape = shape_of(FabricKind::kFatTree, 64);
  shape.radix = 4;
  EXPECT_THAT(refusal(host(1), shape), HasSubstr("need 32 leaves, but a tree of 3 tiers of "
                                                 "switches with 4 ports has at most 8"));
  shape.radix = 8;
  shape.tiers = 2;
  EXPECT_THAT(refusal(host(1), shape), HasSubstr("at most 8: raise radix or tiers"));
  shape = shape_of(FabricKind::kDragonfly, 2000);
  EXPECT_THAT(refusal(host(1), shape), HasSubstr("at most 33 groups"));
  shape.groups = 2;
  EXPECT_THAT(refusal(host(1), shape),
              HasSubstr("have 64 ports for NICs, but the hosts have 2000"));
  shape = shape_of(FabricKind::kJellyfish, 8);
  EXPECT_THAT(refusal(host(1), shape), HasSubstr("lower degree or terminals"));
}

TEST(Fabric, RefusesToHaveMoreCablesThanATopologyMay) {
  FabricShape shape = shape_of(FabricKind::kDragonfly, 2);
  shape.groups = 65536;
  shape.routers = 1024;
  shape.global = 1024;
  EXPECT_THAT(refusal(host(1), shape), HasSubstr("at most 4194304"));
  shape = shape_of(FabricKind::kJellyfish, 60000);
  shape.terminals = 1;
  shape.degree = 1024;
  EXPECT_THAT(refusal(host(1), shape), HasSubstr("at most 4194304"));
}

TEST(Fabric, RefusesHostsThatItCannotJoin) {
  const FabricShape shape = shape_of(FabricKind::kFatTree, 2);
  EXPECT_THAT(refusal(host(0), shape), HasSubstr("no NIC"));
  Parts silent = host_parts(1);
  silent.nodes[1].attributes.clear();
  EXPECT_THAT(refusal(*Topology::create(silent), shape), HasSubstr("attribute `speed`"));
  silent.nodes[1].attributes = {{"speed", "-5"}};
  EXPECT_THAT(refusal(*Topology::create(silent), shape), HasSubstr("attribute `speed`"));
  EXPECT_THAT(refusal(joined(host(1), shape), shape), HasSubstr("has a cable already"));
  EXPECT_THAT(refusal(chips(), shape), HasSubstr("take a torus"));
}

TEST(Fabric, HasSwitchesThatAddIfItsShapeSaysSo) {
  FabricShape shape = shape_of(FabricKind::kFatTree, 8);
  shape.radix = 4;
  const auto adding = [&] {
    const Topology topology = joined(host(1), shape);
    std::set<std::string> found;
    for (const Node& node : topology.nodes())
      if (node.kind == NodeKind::kSwitch)
        found.insert(node.attributes.empty() ? "" : node.attributes[0].value);
    return found;
  };
  EXPECT_EQ(adding(), std::set<std::string>{""});
  shape.aggregation = 8;
  shape.adding_latency = 0.2;
  EXPECT_EQ(adding(), std::set<std::string>{"trees=8,latency=0.2"});
  shape.aggregation = 1;
  shape.adding_latency = 0;
  EXPECT_EQ(adding(), std::set<std::string>{"trees=1"});
}

}  // namespace
}  // namespace tutti::topo
