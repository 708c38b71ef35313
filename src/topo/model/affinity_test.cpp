#include "src/topo/model/affinity.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/topo/model/builder.hpp"

namespace tutti::topo {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// One host: NICs of 25 GB/s, as many per PCI switch as said, one GPU each, all on an NVSwitch.
struct Box {
  std::vector<NodeId> gpus, nics;
};
Box add_box(Builder& builder, const std::string& name, const std::vector<int>& nics_below) {
  Box box;
  const HostId host = builder.host(name);
  const NodeId cpu = builder.node(NodeKind::kCpu, host, "cpu");
  const NodeId plane = builder.node(NodeKind::kNvswitch, host, "nvswitch");
  for (std::size_t i = 0; i < nics_below.size(); ++i) {
    const NodeId pci = builder.node(NodeKind::kPci, host, fmt::format("pci{}", i));
    box.gpus.push_back(builder.node(NodeKind::kGpu, host, fmt::format("gpu{}", i)));
    builder.join(cpu, pci, LinkKind::kPci, 24);
    builder.join(pci, box.gpus.back(), LinkKind::kPci, 24);
    builder.join(plane, box.gpus.back(), LinkKind::kNvlink, 240);
    for (int n = 0; n < nics_below[i]; ++n) {
      box.nics.push_back(builder.node(NodeKind::kNic, host, fmt::format("nic{}", box.nics.size())));
      builder.join(pci, box.nics.back(), LinkKind::kPci, 24);
    }
  }
  return box;
}

TEST(NearestNics, AreThoseBelowTheSamePciSwitch) {
  Builder builder;
  const Box box = add_box(builder, "h", {1, 2, 0});
  const Topology topology = *std::move(builder).create();
  PathFinder finder(topology);
  EXPECT_THAT(nearest_nics(finder, box.gpus[0]), ElementsAre(box.nics[0]));
  EXPECT_THAT(nearest_nics(finder, box.gpus[1]), ElementsAre(box.nics[1], box.nics[2]));
  EXPECT_THAT(nearest_nics(finder, box.gpus[2]),
              ElementsAre(box.nics[0], box.nics[1], box.nics[2]));
}

TEST(ShortestTo, IsTheNicBesideTheGpuEvenIfItIsSlow) {
  Builder builder;
  const Box box = add_box(builder, "h", {1, 1, 1});
  const NodeId leaf = builder.node(NodeKind::kSwitch, kNoHost, "leaf");
  for (const NodeId nic : box.nics)
    builder.join(nic, leaf, LinkKind::kNetwork, nic == box.nics[0] ? 1.25 : 12.5);
  const Topology topology = *std::move(builder).create();
  PathFinder finder(topology);
  EXPECT_THAT(shortest_to(finder, box.gpus[0], box.nics), ElementsAre(box.nics[0]));
  EXPECT_THAT(shortest_to(finder, box.gpus[1], std::vector{box.nics[0], box.nics[2]}),
              ElementsAre(box.nics[0], box.nics[2]));
  EXPECT_THAT(shortest_to(finder, box.gpus[1], {}), IsEmpty());
}

TEST(NearestNics, AreDescribedByTheirPlace) {
  const Node gpu{NodeKind::kGpu, 0, "gpu3", {}}, cpu{NodeKind::kCpu, 0, "cpu1", {}};
  EXPECT_EQ(describe_place(PathKind::kPci, gpu), "on the PCI switch of gpu3 (PIX)");
  EXPECT_EQ(describe_place(PathKind::kHostBridge, gpu), "on the CPU of gpu3 (PHB)");
  EXPECT_EQ(describe_place(PathKind::kSystem, gpu), "on another CPU than gpu3 (SYS)");
  EXPECT_EQ(describe_place(PathKind::kHostBridge, cpu), "on cpu1 (PHB)");
}

TEST(NearestNics, AreTheWidestOnesEvenIfFurtherAway) {
  Builder builder;
  const Box box = add_box(builder, "h", {1, 1});
  const NodeId leaf = builder.node(NodeKind::kSwitch, kNoHost, "leaf");
  builder.join(box.nics[0], leaf, LinkKind::kNetwork, 1.25);
  builder.join(box.nics[1], leaf, LinkKind::kNetwork, 12.5);
  const Topology topology = *std::move(builder).create();
  PathFinder finder(topology);
  EXPECT_THAT(nearest_nics(finder, box.gpus[0]), ElementsAre(box.nics[1]));
}

/// A host of two CPUs, each with a NIC, whose process may use the CPUs `allowed`.
std::vector<std::string> nics_near(const std::string& allowed) {
  Parts parts;
  parts.hosts.push_back({"h", {{"affinity", allowed}}});
  parts.nodes = {{NodeKind::kCpu, 0, "cpu0", {{"affinity", "0000000f"}}},
                 {NodeKind::kCpu, 0, "cpu1", {{"affinity", "000000f0"}}},
                 {NodeKind::kNic, 0, "nic0", {}},
                 {NodeKind::kNic, 0, "nic1", {}}};
  const auto join = [&](NodeId a, NodeId b, LinkKind kind) {
    parts.links.push_back({a, b, kind, 24, 1});
    parts.links.push_back({b, a, kind, 24, 1});
  };
  join(0, 2, LinkKind::kPci);
  join(1, 3, LinkKind::kPci);
  join(0, 1, LinkKind::kSystem);
  const Topology topology = *Topology::create(std::move(parts));
  PathFinder finder(topology);
  std::vector<std::string> names;
  for (const NodeId nic : nearest_nics_of_process(finder, 0))
    names.push_back(topology.node(nic).name);
  return names;
}

TEST(NearestNics, OfAProcessAreThoseOfTheCpusThatItMayUse) {
  EXPECT_THAT(nics_near("0-3"), ElementsAre("nic0"));
  EXPECT_THAT(nics_near("5"), ElementsAre("nic1"));
  EXPECT_THAT(nics_near("0-7"), IsEmpty());  // both CPUs: no NIC is nearer than another
  EXPECT_THAT(nics_near("9"), IsEmpty());
  EXPECT_THAT(nics_near(""), IsEmpty());
}

TEST(NearestNics, AreNoneWhereTheHostHasNone) {
  Builder builder;
  const Box box = add_box(builder, "h", {0});
  add_box(builder, "other", {1});
  const Topology topology = *std::move(builder).create();
  PathFinder finder(topology);
  EXPECT_THAT(nearest_nics(finder, box.gpus[0]), IsEmpty());
}

TEST(RelayedToNic, LeadsOverNvlinkToTheGpuBesideTheNic) {
  Builder builder;
  const Box box = add_box(builder, "h", {1, 1});
  const Topology topology = *std::move(builder).create();
  PathFinder finder(topology);
  const auto path = relayed_to_nic(finder, box.gpus[0], box.nics[1]);
  ASSERT_TRUE(path);
  EXPECT_EQ(path->kind, PathKind::kRelay);
  EXPECT_EQ(path->bandwidth, 24);
  std::vector<NodeId> through;
  for (const LinkId id : path->links) through.push_back(topology.link(id).to);
  EXPECT_EQ(through.size(), 4U);
  EXPECT_EQ(through[1], box.gpus[1]);
  EXPECT_EQ(through.back(), box.nics[1]);
}

TEST(RelayedToNic, IsNotUsedWhereTheGpuSitsBesideTheNicItself) {
  Builder builder;
  const Box box = add_box(builder, "h", {1, 1});
  const Topology topology = *std::move(builder).create();
  PathFinder finder(topology);
  EXPECT_FALSE(relayed_to_nic(finder, box.gpus[0], box.nics[0]));
}

TEST(RelayedToNic, NeedsNvlinkToThePeer) {
  Builder builder;
  const HostId host = builder.host("h");
  const NodeId cpu = builder.node(NodeKind::kCpu, host, "cpu");
  const NodeId pci = builder.node(NodeKind::kPci, host, "pci");
  const NodeId near = builder.node(NodeKind::kGpu, host, "near");
  const NodeId far = builder.node(NodeKind::kGpu, host, "far");
  const NodeId nic = builder.node(NodeKind::kNic, host, "nic");
  for (const NodeId below : {near, nic, cpu}) builder.join(pci, below, LinkKind::kPci, 24);
  builder.join(cpu, far, LinkKind::kPci, 24);
  const Topology topology = *std::move(builder).create();
  PathFinder finder(topology);
  EXPECT_EQ(finder.find(far, nic).kind, PathKind::kHostBridge);
  EXPECT_FALSE(relayed_to_nic(finder, far, nic));
}

/// Two boxes of two NICs whose NICs plug into the leaf that `leaf_of` names by box and position.
struct Cluster {
  Builder builder;
  std::vector<NodeId> leaves;
  Box boxes[2];
  Cluster(std::size_t leaf_count, std::size_t (*leaf_of)(std::size_t box, std::size_t position)) {
    for (std::size_t i = 0; i < leaf_count; ++i)
      leaves.push_back(builder.node(NodeKind::kSwitch, kNoHost, fmt::format("leaf{}", i)));
    for (std::size_t b = 0; b < 2; ++b) {
      boxes[b] = add_box(builder, fmt::format("h{}", b), {1, 1});
      for (std::size_t i = 0; i < 2; ++i)
        builder.join(boxes[b].nics[i], leaves[leaf_of(b, i)], LinkKind::kNetwork, 25);
    }
  }
};

TEST(Rails, AreTheLeavesOfARailOptimisedNetwork) {
  Cluster cluster(2, [](std::size_t, std::size_t position) { return position; });
  const auto& [a, b] = cluster.boxes;
  const Topology topology = *std::move(cluster.builder).create();
  EXPECT_THAT(rails(topology), ElementsAre(Rail{a.nics[0], b.nics[0]}, Rail{a.nics[1], b.nics[1]}));
}

TEST(Rails, FollowTheCablesWhereHostsNumberTheirNicsDifferently) {
  Cluster cluster(2, [](std::size_t box, std::size_t position) { return (box + position) % 2; });
  const auto& [a, b] = cluster.boxes;
  const Topology topology = *std::move(cluster.builder).create();
  EXPECT_THAT(rails(topology), ElementsAre(Rail{a.nics[0], b.nics[1]}, Rail{a.nics[1], b.nics[0]}));
}

TEST(Rails, GoByPositionWhereOneSwitchServesAllNicsOfAHost) {
  Cluster one(1, [](std::size_t, std::size_t) { return std::size_t{0}; });
  Cluster each(2, [](std::size_t box, std::size_t) { return box; });
  for (Cluster* cluster : {&one, &each}) {
    const auto& [a, b] = cluster->boxes;
    const Topology topology = *std::move(cluster->builder).create();
    EXPECT_THAT(rails(topology),
                ElementsAre(Rail{a.nics[0], b.nics[0]}, Rail{a.nics[1], b.nics[1]}));
  }
}

TEST(Rails, SpanTheLeavesOfSeveralPods) {
  Cluster cluster(4, [](std::size_t box, std::size_t position) { return 2 * box + position; });
  const auto& [a, b] = cluster.boxes;
  const Topology topology = *std::move(cluster.builder).create();
  EXPECT_THAT(rails(topology), ElementsAre(Rail{a.nics[0], b.nics[0]}, Rail{a.nics[1], b.nics[1]}));
}

TEST(Rails, LookThroughTheOutsideOfANic) {
  Cluster cluster(2, [](std::size_t, std::size_t position) { return position; });
  Builder& builder = cluster.builder;
  const Box box = add_box(builder, "h2", {1, 1});
  for (std::size_t i = 0; i < 2; ++i) {
    const NodeId outside = builder.node(NodeKind::kSwitch, 2, fmt::format("outside{}", i));
    builder.join(box.nics[i], outside, LinkKind::kNetwork, 25);
    builder.join(outside, cluster.leaves[1 - i], LinkKind::kNetwork, 25);
  }
  const auto& [a, b] = cluster.boxes;
  const Topology topology = *std::move(builder).create();
  EXPECT_THAT(rails(topology), ElementsAre(Rail{a.nics[0], b.nics[0], box.nics[1]},
                                           Rail{a.nics[1], b.nics[1], box.nics[0]}));
}

}  // namespace
}  // namespace tutti::topo
