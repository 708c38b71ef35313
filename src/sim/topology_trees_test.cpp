#include "src/sim/topology_trees.hpp"

#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/sim/topology_fabric.hpp"

namespace tutti::sim {
namespace {

using testing::HasSubstr;
using testing::SizeIs;
using topo::NodeId;
using topo::NodeKind;

/// Writes a topology down part by part.
class Plan {
 public:
  NodeId add(NodeKind kind, topo::HostId host, std::string name, std::string aggregation = "") {
    topo::Node node = {kind, host, std::move(name), {}};
    if (!aggregation.empty()) node.attributes = {{"aggregation", std::move(aggregation)}};
    parts_.nodes.push_back(std::move(node));
    return static_cast<NodeId>(parts_.nodes.size() - 1);
  }
  /// A GPU on a PCI link to a NIC, in a host of its own.
  NodeId host_with_nic(NodeId leaf) {
    const auto host = static_cast<topo::HostId>(parts_.hosts.size());
    parts_.hosts.push_back({fmt::format("h{}", host), {}});
    const NodeId gpu = add(NodeKind::kGpu, host, "gpu"), nic = add(NodeKind::kNic, host, "nic");
    join(gpu, nic, 60, 0.25);
    join(nic, leaf, 50, 0.5);
    return gpu;
  }
  void join(NodeId a, NodeId b, double bandwidth, double latency) {
    parts_.links.push_back({a, b, topo::LinkKind::kNetwork, bandwidth, latency});
    parts_.links.push_back({b, a, topo::LinkKind::kNetwork, bandwidth, latency});
  }
  topo::Parts& parts() { return parts_; }
  [[nodiscard]] topo::Topology finish() const { return *topo::Topology::create(parts_); }

 private:
  topo::Parts parts_;
};

/// Two leaves with two hosts each, joined by two spines.
topo::Topology two_tiers(const std::string& aggregation) {
  Plan plan;
  std::vector<NodeId> leaves, spines;
  for (int i = 0; i < 2; ++i) {
    leaves.push_back(
        plan.add(NodeKind::kSwitch, topo::kNoHost, fmt::format("leaf{}", i), aggregation));
    spines.push_back(
        plan.add(NodeKind::kSwitch, topo::kNoHost, fmt::format("spine{}", i), aggregation));
  }
  for (const NodeId leaf : leaves)
    for (const NodeId spine : spines) plan.join(leaf, spine, 50, 0.5);
  for (int host = 0; host < 4; ++host)
    plan.host_with_nic(leaves[static_cast<std::size_t>(host) / 2]);
  return plan.finish();
}

Result<std::vector<NetworkTree>> trees_on(const topo::Topology& topology,
                                          const std::vector<ir::Group>& groups) {
  auto fabric = TopologyFabric::create(topology, topo::one_rank_each(topology));
  EXPECT_TRUE(fabric) << fabric.error().what;
  return fabric->trees(groups);
}

TEST(TopologyTrees, HaveTheirRootWhereTheMembersMeet) {
  const topo::Topology topology = two_tiers("trees=8");
  const auto trees = trees_on(topology, {{{0, 1}}, {{2, 3}}, {{0, 1, 2, 3}}});
  ASSERT_TRUE(trees) << trees.error().what;
  EXPECT_EQ((*trees)[0].name, "leaf0");
  EXPECT_EQ((*trees)[1].name, "leaf1");
  EXPECT_EQ((*trees)[2].name, "spine0");
  EXPECT_THAT((*trees)[0].members[0].up, SizeIs(2));
  EXPECT_THAT((*trees)[2].members[0].up, SizeIs(3));
}

TEST(TopologyTrees, ShareALinkAboveTheSwitchThatAdds) {
  const topo::Topology topology = two_tiers("trees=8");
  const auto trees = trees_on(topology, {{{0, 1, 2, 3}}});
  ASSERT_TRUE(trees) << trees.error().what;
  const auto& members = trees->front().members;
  EXPECT_EQ(members[0].up.back(), members[1].up.back());
  EXPECT_NE(members[0].up.back(), members[2].up.back());
  EXPECT_EQ(members[0].down.front(), members[1].down.front());
  for (const auto& member : members) {
    EXPECT_EQ(topology.link(member.down.back()).from, topology.link(member.up.front()).to);
    EXPECT_EQ(topology.link(member.down.back()).to, topology.link(member.up.front()).from);
  }
}

TEST(TopologyTrees, TakeTheLatencyOfTheWayAndOfEachLevel) {
  const auto trees = trees_on(two_tiers("latency=0.3"), {{{0, 1, 2, 3}}});
  ASSERT_TRUE(trees) << trees.error().what;
  EXPECT_DOUBLE_EQ(trees->front().latency, 2 * (0.25 + 0.5 + 0.5) + 2 * 0.3);
}

TEST(TopologyTrees, SpreadOverTheSwitchesThatAreLeft) {
  const topo::Topology topology = two_tiers("trees=2");
  const ir::Group all = {{0, 1, 2, 3}};
  const auto two = trees_on(topology, {all, all});
  ASSERT_TRUE(two) << two.error().what;
  EXPECT_EQ((*two)[0].name, "spine0");
  EXPECT_EQ((*two)[1].name, "spine1");
  const auto three = trees_on(topology, {all, all, all});
  ASSERT_FALSE(three);
  EXPECT_EQ(three.error().code, Code::kUnsupported);
  EXPECT_THAT(three.error().what, HasSubstr("no tree of switches that add is left for 4 ranks"));
}

TEST(TopologyTrees, AreWhatTheirSlowestSwitchAllows) {
  const auto trees =
      trees_on(two_tiers("trees=4,outstanding=2,rate=40,window=100000,parts=1"), {{{0, 3}}});
  ASSERT_TRUE(trees) << trees.error().what;
  EXPECT_EQ(trees->front().outstanding, 2U);
  EXPECT_TRUE(trees->front().sums_in_parts);
  EXPECT_DOUBLE_EQ(trees->front().rate, 40) << "100 KB in 2.5 us";
}

TEST(TopologyTrees, DoNotExistWhereNothingAdds) {
  const auto trees = trees_on(two_tiers(""), {{{0, 1}}});
  ASSERT_FALSE(trees);
  EXPECT_EQ(trees.error().code, Code::kUnsupported);
  const auto none = trees_on(two_tiers(""), {});
  ASSERT_TRUE(none);
  EXPECT_THAT(*none, SizeIs(0));
}

/// Two GPUs on an NVSwitch that adds, behind one NIC, twice.
topo::Topology two_nodes() {
  Plan plan;
  const NodeId leaf = plan.add(NodeKind::kSwitch, topo::kNoHost, "leaf", "trees=2");
  for (topo::HostId host = 0; host < 2; ++host) {
    plan.parts().hosts.push_back({fmt::format("h{}", host), {}});
    const NodeId plane = plan.add(NodeKind::kNvswitch, host, "nvswitch", "outstanding=0");
    const NodeId pci = plan.add(NodeKind::kPci, host, "pci");
    const NodeId nic = plan.add(NodeKind::kNic, host, "nic");
    plan.join(pci, nic, 60, 0.25);
    plan.join(nic, leaf, 50, 0.5);
    for (int i = 0; i < 2; ++i) {
      const NodeId gpu = plan.add(NodeKind::kGpu, host, fmt::format("gpu{}", i));
      plan.join(gpu, plane, 450, 0.35);
      plan.join(gpu, pci, 60, 0.25);
    }
  }
  return plan.finish();
}

TEST(TopologyTrees, StayInsideANodeIfTheyCan) {
  const auto trees = trees_on(two_nodes(), {{{2, 3}}, {{0, 2}}});
  ASSERT_TRUE(trees) << trees.error().what;
  EXPECT_EQ((*trees)[0].name, "h1/nvswitch");
  EXPECT_EQ((*trees)[0].outstanding, 0U);
  EXPECT_EQ((*trees)[1].name, "leaf");
  EXPECT_THAT((*trees)[1].members[0].up, SizeIs(3));
}

TEST(TopologyTrees, RefuseMembersBehindOneNic) {
  const auto trees = trees_on(two_nodes(), {{{0, 1, 2, 3}}});
  ASSERT_FALSE(trees);
  EXPECT_EQ(trees.error().code, Code::kUnsupported);
  EXPECT_THAT(trees.error().what, HasSubstr("ranks 0 and 1 share the link h0/pci -> h0/nic"));
}

TEST(TopologyTrees, NeedWaysInBothDirections) {
  Plan plan;
  const NodeId leaf = plan.add(NodeKind::kSwitch, topo::kNoHost, "leaf", "trees=4");
  const NodeId other = plan.add(NodeKind::kSwitch, topo::kNoHost, "other", "trees=4");
  const NodeId third = plan.add(NodeKind::kSwitch, topo::kNoHost, "third", "trees=4");
  plan.host_with_nic(leaf);
  plan.host_with_nic(other);
  for (const NodeId from : {leaf, other})
    plan.parts().links.push_back({from, third, topo::LinkKind::kNetwork, 50, 0.5});
  const auto trees = trees_on(plan.finish(), {{{0, 1}}});
  ASSERT_FALSE(trees);
  EXPECT_EQ(trees.error().code, Code::kUnsupported);
  EXPECT_THAT(trees.error().what, HasSubstr("nothing leads from third back to rank 0"));
}

TEST(TopologyTrees, OfAWrongAttributeAreAnError) {
  const topo::Topology topology = two_tiers("trees=0");
  const auto fabric = TopologyFabric::create(topology, topo::one_rank_each(topology));
  ASSERT_FALSE(fabric);
  EXPECT_THAT(fabric.error().what, HasSubstr("`aggregation` of leaf0"));
}

TEST(TopologyTrees, TakeOneOfSeveralParallelCablesEach) {
  Plan plan;
  const NodeId leaf = plan.add(NodeKind::kSwitch, topo::kNoHost, "leaf", "trees=4");
  const NodeId other = plan.add(NodeKind::kSwitch, topo::kNoHost, "other", "trees=4");
  for (int i = 0; i < 2; ++i) plan.join(leaf, other, 50, 0.5);
  plan.host_with_nic(leaf);
  plan.host_with_nic(other);
  const ir::Group both = {{0, 1}};
  const auto trees = trees_on(plan.finish(), {both, both});
  ASSERT_TRUE(trees) << trees.error().what;
  std::set<LinkId> cables;
  for (const NetworkTree& tree : *trees)
    for (const auto& member : tree.members)
      if (member.up.size() == 3) cables.insert(member.up.back());
  EXPECT_THAT(cables, SizeIs(2));
}

}  // namespace
}  // namespace tutti::sim
