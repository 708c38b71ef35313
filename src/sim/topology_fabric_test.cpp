#include "src/sim/topology_fabric.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/topo/model/builder.hpp"

namespace tutti::sim {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// One host with two GPUs on a PCI switch, and a host that nothing leads to.
Result<topo::Topology> two_hosts() {
  topo::Builder builder;
  const topo::HostId near = builder.host("near");
  const auto cpu = builder.node(topo::NodeKind::kPci, near, "switch");
  for (const char* name : {"gpu0", "gpu1"})
    builder.join(builder.node(topo::NodeKind::kGpu, near, name), cpu, topo::LinkKind::kPci, 12,
                 0.5);
  builder.node(topo::NodeKind::kGpu, builder.host("far"), "gpu0");
  return std::move(builder).create();
}

TEST(TopologyFabric, LeadsOverTheLinksOfTheTopology) {
  const auto topology = two_hosts();
  ASSERT_TRUE(topology) << topology.error().what;
  auto fabric = TopologyFabric::create(*topology, topo::one_rank_each(*topology));
  ASSERT_TRUE(fabric) << fabric.error().what;
  EXPECT_EQ(fabric->ranks(), 3);
  const auto path = fabric->path(0, 1, 0);
  ASSERT_TRUE(path) << path.error().what;
  ASSERT_THAT(*path, SizeIs(2));
  const Link first = {12, 0.5, "near/gpu0 -> near/switch"};
  const Link second = {12, 0.5, "near/switch -> near/gpu1"};
  EXPECT_EQ(fabric->links()[(*path)[0]], first);
  EXPECT_EQ(fabric->links()[(*path)[1]], second);
}

TEST(TopologyFabric, NamesTwoRanksThatNothingJoins) {
  const auto topology = two_hosts();
  ASSERT_TRUE(topology) << topology.error().what;
  auto fabric = TopologyFabric::create(*topology, topo::one_rank_each(*topology));
  ASSERT_TRUE(fabric) << fabric.error().what;
  const auto path = fabric->path(0, 2, 0);
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().code, Code::kInvalidArgument);
  EXPECT_THAT(path.error().what, HasSubstr("rank 0 on near/gpu0 to rank 2 on far/gpu0"));
}

TEST(TopologyFabric, HasNoLinksBetweenRanksOnOneNode) {
  const auto topology = two_hosts();
  ASSERT_TRUE(topology) << topology.error().what;
  const topo::NodeId gpu = topo::one_rank_each(*topology).ranks[0];
  auto fabric = TopologyFabric::create(*topology, {{gpu, gpu}});
  ASSERT_TRUE(fabric) << fabric.error().what;
  const auto path = fabric->path(0, 1, 0);
  ASSERT_TRUE(path) << path.error().what;
  EXPECT_THAT(*path, IsEmpty());
}

TEST(TopologyFabric, RefusesRanksThatLiveNowhere) {
  const auto topology = two_hosts();
  ASSERT_TRUE(topology) << topology.error().what;
  EXPECT_FALSE(TopologyFabric::create(*topology, {{topo::NodeId{1000}}}));
}

}  // namespace
}  // namespace tutti::sim
