#include "src/topo/forest/from_topology.hpp"

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/topo/forest/forest.hpp"
#include "src/topo/forest/forest_cache.hpp"

namespace tutti::topo::forest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void join(Parts& parts, NodeId a, NodeId b, LinkKind kind, double bandwidth) {
  parts.links.push_back({a, b, kind, bandwidth, 1});
  parts.links.push_back({b, a, kind, bandwidth, 1});
}

/// Hosts of four GPUs on an NVSwitch (300 GB/s), two NICs (25 GB/s) to one network switch, each on
/// a PCI switch with two GPUs. Node 0 is the network switch; a host's nodes are its NVSwitch, then
/// its GPUs, PCI switches and NICs.
Parts hosts_of_four(int hosts) {
  Parts parts;
  parts.nodes.push_back({NodeKind::kSwitch, kNoHost, "ib", {}});
  const auto add = [&](NodeKind kind, HostId host, std::string name) {
    parts.nodes.push_back({kind, host, std::move(name), {}});
    return static_cast<NodeId>(parts.nodes.size() - 1);
  };
  for (int h = 0; h < hosts; ++h) {
    const auto host = static_cast<HostId>(h);
    parts.hosts.push_back({fmt::format("host{}", h), {}});
    const NodeId nvswitch = add(NodeKind::kNvswitch, host, "nvs");
    std::vector<NodeId> gpus;
    for (int gpu = 0; gpu < 4; ++gpu) {
      gpus.push_back(add(NodeKind::kGpu, host, fmt::format("gpu{}", gpu)));
      join(parts, gpus.back(), nvswitch, LinkKind::kNvlink, 300);
    }
    for (std::size_t half = 0; half < 2; ++half) {
      const NodeId pci = add(NodeKind::kPci, host, fmt::format("pci{}", half));
      const NodeId nic = add(NodeKind::kNic, host, fmt::format("nic{}", half));
      join(parts, gpus[2 * half], pci, LinkKind::kPci, 24);
      join(parts, gpus[2 * half + 1], pci, LinkKind::kPci, 24);
      join(parts, pci, nic, LinkKind::kPci, 24);
      join(parts, nic, 0, LinkKind::kNetwork, 25);
    }
  }
  return parts;
}

Topology made(Parts parts) {
  auto topology = Topology::create(std::move(parts));
  EXPECT_TRUE(topology) << topology.error().what;
  return *std::move(topology);
}

double bandwidth_of(const NotedNetwork& noted) {
  const auto optimum = find_optimum(noted.network);
  EXPECT_TRUE(optimum) << optimum.error().what;
  return algorithm_bandwidth(noted.network, noted.network.compute_nodes().size(), optimum->time);
}

TEST(NetworkOfATopology, HasARankForEachGpuAndTheBandwidthOfItsNics) {
  const Topology topology = made(hosts_of_four(2));
  const auto noted = network_of(topology, one_rank_each(topology));
  ASSERT_TRUE(noted) << noted.error().what;
  EXPECT_THAT(noted->assumptions, IsEmpty());
  EXPECT_THAT(noted->network.compute_nodes(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(noted->network.nodes[5].name, "rank 5 (host1/gpu1)");
  // Half of the data enters each host through two PCI switches: 8 * 48 / 4.
  EXPECT_DOUBLE_EQ(bandwidth_of(*noted), 96);
}

TEST(NetworkOfATopology, GrowsAForestThroughItsSwitches) {
  const Topology topology = made(hosts_of_four(3));
  const auto noted = network_of(topology, one_rank_each(topology));
  ASSERT_TRUE(noted);
  const auto forest = grow(noted->network);
  ASSERT_TRUE(forest) << forest.error().what;
  EXPECT_EQ(forest->time, forest->optimal_time);
}

TEST(NetworkOfATopology, NumbersRanksAsThePlacementDoes) {
  const Topology topology = made(hosts_of_four(1));
  const auto noted = network_of(topology, {{5, 2, 3}});
  ASSERT_TRUE(noted);
  EXPECT_EQ(noted->network.nodes[0].name, "rank 0 (host0/gpu3)");
  EXPECT_EQ(noted->network.nodes[1].name, "rank 1 (host0/gpu0)");
}

TEST(NetworkOfATopology, LeavesGpusWithoutARankOut) {
  const Topology topology = made(hosts_of_four(1));
  const auto noted = network_of(topology, {{2, 3}});
  ASSERT_TRUE(noted);
  EXPECT_THAT(noted->assumptions, ElementsAre("2 GPUs without a rank pass no data on."));
  for (const Network::Node& node : noted->network.nodes) {
    EXPECT_THAT(node.name, testing::Not(HasSubstr("gpu2")));
  }
}

TEST(NetworkOfATopology, LimitsRanksThatShareANodeByItsLinksAlone) {
  // Two CPUs, 10 GB/s between them, three ranks on one: their three blocks pass the link.
  Parts parts;
  parts.hosts = {{"a", {}}, {"b", {}}};
  parts.nodes = {{NodeKind::kCpu, 0, "cpu", {}}, {NodeKind::kCpu, 1, "cpu", {}}};
  join(parts, 0, 1, LinkKind::kNetwork, 10);
  const auto noted = network_of(made(parts), {{0, 0, 1, 0}});
  ASSERT_TRUE(noted) << noted.error().what;
  EXPECT_THAT(noted->assumptions,
              ElementsAre("Ranks that share a node reach each other without limit."));
  EXPECT_DOUBLE_EQ(bandwidth_of(*noted), 4 * 10.0 / 3);
  const auto forest = grow(noted->network);
  EXPECT_TRUE(forest) << forest.error().what;
}

TEST(NetworkOfATopology, SaysThatTimesMeanNothingWhereAllShareANode) {
  Parts parts;
  parts.hosts = {{"a", {}}};
  parts.nodes = {{NodeKind::kCpu, 0, "cpu", {}}};
  const auto noted = network_of(made(parts), {{0, 0, 0}});
  ASSERT_TRUE(noted) << noted.error().what;
  ASSERT_EQ(noted->assumptions.size(), 2U);
  EXPECT_THAT(noted->assumptions[1], HasSubstr("times mean nothing"));
  EXPECT_TRUE(grow(noted->network));
}

TEST(NetworkOfATopology, RoundsDownAndSaysSo) {
  Parts parts = hosts_of_four(1);
  parts.links[0].bandwidth = parts.links[1].bandwidth = 299.99951;
  const Topology topology = made(parts);
  const auto noted = network_of(topology, one_rank_each(topology));
  ASSERT_TRUE(noted);
  EXPECT_THAT(noted->assumptions, ElementsAre("Bandwidths were rounded down to whole MB/s."));
  EXPECT_EQ(noted->network.links[0].capacity, 299999);
}

TEST(NetworkOfATopology, BringsSwitchesIntoBalanceAndSaysSo) {
  Parts parts = hosts_of_four(1);
  parts.links[0].bandwidth = 150;  // from the first GPU to the NVSwitch, not back
  const Topology topology = made(parts);
  const auto noted = network_of(topology, one_rank_each(topology));
  ASSERT_TRUE(noted);
  ASSERT_EQ(noted->assumptions.size(), 1U);
  EXPECT_THAT(noted->assumptions[0], HasSubstr("the slower of their two directions"));
  EXPECT_TRUE(grow(noted->network));
}

TEST(NetworkOfATopology, NamesARankThatCannotBeReached) {
  Parts parts = hosts_of_four(2);
  std::erase_if(parts.links, [](const Link& link) {
    return link.kind == LinkKind::kNetwork && (link.from > 10 || link.to > 10);
  });
  const Topology topology = made(parts);
  const auto noted = network_of(topology, one_rank_each(topology));
  ASSERT_FALSE(noted);
  EXPECT_EQ(noted.error().code, Code::kInvalidArgument);
  EXPECT_THAT(noted.error().what, HasSubstr("rank 4 (host1/gpu0)"));
}

TEST(NetworkOfATopology, RefusesPlacementsOnSwitchesAndNoRankAtAll) {
  const Topology topology = made(hosts_of_four(1));
  EXPECT_EQ(network_of(topology, {{0}}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(network_of(topology, {}).error().code, Code::kInvalidArgument);
}

TEST(ForestCache, ReturnsTheSameForestForTheSameTopologyAndPlacement) {
  const Topology topology = made(hosts_of_four(2));
  const Placement placement = one_rank_each(topology);
  ForestCache cache(4);
  const auto first = cache.get(topology, placement);
  ASSERT_TRUE(first) << first.error().what;
  EXPECT_EQ(*first, *cache.get(made(hosts_of_four(2)), placement));
  EXPECT_EQ(cache.size(), 1U);
  EXPECT_NE(*first, *cache.get(topology, {{2, 3}}));
  EXPECT_NE(*first, *cache.get(topology, placement, {.root = 0}));
  EXPECT_EQ(cache.size(), 3U);
}

TEST(ForestCache, GrowsAnotherForestWhenALinkDegrades) {
  const Topology healthy = made(hosts_of_four(2));
  Parts parts = hosts_of_four(2);
  for (Link& link : parts.links) {
    // A network link of the first host, in both directions.
    if (link.kind == LinkKind::kNetwork && std::max(link.from, link.to) == 7) link.bandwidth = 5;
  }
  const Topology degraded = made(parts);
  ASSERT_NE(healthy.hash(), degraded.hash());
  ForestCache cache(4);
  const Placement placement = one_rank_each(healthy);
  const auto before = cache.get(healthy, placement);
  const auto after = cache.get(degraded, placement);
  ASSERT_TRUE(before);
  ASSERT_TRUE(after) << after.error().what;
  EXPECT_LT((*before)->time, (*after)->time);
  EXPECT_EQ((*after)->time, (*after)->optimal_time);
  EXPECT_EQ((*after)->time, (Ratio{4, 29'000}));  // 24 + 5 GB/s lead into the first host
  EXPECT_EQ(*before, *cache.get(healthy, placement));
}

TEST(ForestCache, ForgetsWhatWasNotUsedForLongest) {
  const Topology topology = made(hosts_of_four(1));
  ForestCache cache(2);
  const auto a = cache.get(topology, {{2, 3}});
  const auto b = cache.get(topology, {{3, 4}});
  EXPECT_EQ(*a, *cache.get(topology, {{2, 3}}));  // used again
  ASSERT_TRUE(cache.get(topology, {{4, 5}}));
  EXPECT_EQ(cache.size(), 2U);
  EXPECT_EQ(*a, *cache.get(topology, {{2, 3}}));
  EXPECT_NE(*b, *cache.get(topology, {{3, 4}}));
}

TEST(ForestCache, MayBeAskedByManyThreadsAtOnce) {
  const Topology topology = made(hosts_of_four(1));
  const std::vector<Placement> placements = {{{2, 3}}, {{3, 4}}, {{4, 5}}};
  ForestCache cache(2);
  std::vector<int> failures(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < failures.size(); ++thread) {
    threads.emplace_back([&, thread] {
      for (std::size_t round = 0; round < 100; ++round) {
        const auto forest = cache.get(topology, placements[(round + thread) % placements.size()]);
        if (!forest || (*forest)->ranks != 2) ++failures[thread];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, std::vector<int>(4, 0));
  EXPECT_EQ(cache.size(), 2U);
}

TEST(ForestCache, KeepsNoErrors) {
  ForestCache cache(2);
  EXPECT_FALSE(cache.get(made(hosts_of_four(1)), {}));
  EXPECT_EQ(cache.size(), 0U);
}

}  // namespace
}  // namespace tutti::topo::forest
