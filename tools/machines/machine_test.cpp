#include "tools/machines/machine.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/topo/model/fabric_graph.hpp"
#include "src/topo/model/paths.hpp"

namespace tutti::topo {
namespace {

using ::testing::HasSubstr;

std::string machine_refusal(std::string_view text) {
  const auto machine = parse_machine(text);
  return machine ? "accepted" : machine.error().what;
}

Topology machine(std::string_view text) {
  auto topology = machine_topology(text);
  EXPECT_TRUE(topology) << topology.error().what;
  return *std::move(topology);
}

NodeId named_node(const Topology& topology, std::string_view name) {
  for (NodeId id = 0; id < topology.nodes().size(); ++id)
    if (full_name(topology, id) == name) return id;
  ADD_FAILURE() << "no node " << name;
  return 0;
}

TEST(MachineText, NamesAPresetAsItIs) {
  EXPECT_EQ(machine("dgx-h100"), *builtin_preset("dgx-h100")->host());
  EXPECT_EQ(machine(" 1x  dgx-h100 "), *builtin_preset("dgx-h100")->host());
}

TEST(MachineText, JoinsSeveralHostsByAFabricWithItsSettings) {
  const auto made =
      parse_machine("512x dgx-h100 over fat-tree:tiers=3,oversubscription=2.5,latency=1");
  ASSERT_TRUE(made) << made.error().what;
  EXPECT_EQ(made->fabric->kind, FabricKind::kFatTree);
  EXPECT_EQ(made->fabric->hosts, 512U);
  EXPECT_EQ(made->fabric->tiers, 3U);
  EXPECT_EQ(made->fabric->radix, 64U);  // the preset's
  EXPECT_EQ(made->fabric->oversubscription, 2.5);
  EXPECT_EQ(parse_machine("16x tpu-v4 over torus:sizes=4x4x4")->fabric->sizes,
            (std::vector<std::uint32_t>{4, 4, 4}));
}

TEST(MachineText, SlowsLinksOneAfterTheOther) {
  const Topology slow =
      machine("2x dgx-h100 over rail-optimised with leaf3 at 0.5 with leaf3 to h1/* at 0.5");
  PathFinder paths(slow);
  const auto bandwidth = [&](std::string_view from, std::string_view to) {
    return paths.find(named_node(slow, from), named_node(slow, to)).bandwidth;
  };
  EXPECT_EQ(bandwidth("h0/nic3", "leaf3"), 25);
  EXPECT_EQ(bandwidth("h1/nic3", "leaf3"), 12.5);
  EXPECT_EQ(bandwidth("h1/nic2", "leaf2"), 50);
}

TEST(MachineText, GivesPathsBetweenHostsTheWidthOfTheirNics) {
  const Topology two = machine("2x dgx-h100 over rail-optimised");
  PathFinder paths(two);
  const Path path = paths.find(named_node(two, "h0/gpu5"), named_node(two, "h1/gpu5"));
  EXPECT_EQ(path.kind, PathKind::kNetwork);
  EXPECT_EQ(path.bandwidth, 50);
  const Topology torus = machine("16x tpu-v4 over torus:sizes=4x4x4");
  PathFinder chips(torus);
  const Path hop = chips.find(named_node(torus, "h0/tpu0"), named_node(torus, "h0/tpu1"));
  EXPECT_EQ(hop.kind, PathKind::kNvlink);
  EXPECT_EQ(hop.bandwidth, 50);
}

TEST(MachineText, BuildsEveryHostOverEveryFabricThatFits) {
  for (const std::string_view text :
       {"4x dgx-1 over fat-tree", "4x ndv2 over rail-only", "8x dgx-2 over dragonfly",
        "4x dgx-a100 over dual-plane", "8x dgx-h200 over dragonfly+", "18x dgx-b200 over jellyfish",
        "4x gb200-nvl72 over rail-optimised", "8x mi250 over bigraph", "8x mi300x over fat-tree",
        "16x pcie-8 over hxmesh:sizes=2x2", "64x cpu-2s over bcube", "20x cpu-2s over dcell",
        "9x cpu-2s over torus:sizes=3x3", "5x cpu-2s over optical-ring",
        "4x tpu-v2 over torus:sizes=4x4", "4x tpu-v3 over hxmesh:sizes=2x2"}) {
    auto topology = machine_topology(text);
    ASSERT_TRUE(topology) << text << ": " << topology.error().what;
    PathFinder paths(*topology);
    const auto ranks = one_rank_each(*topology).ranks;
    const Path path = paths.find(ranks.front(), ranks.back());
    EXPECT_NE(path.kind, PathKind::kDisconnected) << text;
  }
}

TEST(MachineText, NamesColumnAndWordOfWhatIsWrong) {
  EXPECT_THAT(machine_refusal(""), HasSubstr("column 1: found the end, expected a host"));
  EXPECT_THAT(machine_refusal("dgx-h10"),
              HasSubstr("column 1: there is no preset `dgx-h10`; did you mean"));
  EXPECT_THAT(machine_refusal("4x dgx-h100"),
              HasSubstr("column 12: found the end, expected `over`"));
  EXPECT_THAT(machine_refusal("0x dgx-h100"),
              HasSubstr("column 1: found `0x`, expected a number of hosts"));
  EXPECT_THAT(machine_refusal("4x fat-tree"),
              HasSubstr("column 4: found `fat-tree`, expected a host, but"));
  EXPECT_THAT(machine_refusal("4x dgx-h100 over dgx-1"),
              HasSubstr("column 18: found `dgx-1`, expected a fab"));
  EXPECT_THAT(machine_refusal("4x dgx-h100 over rail-optimized"),
              HasSubstr("did you mean rail-optimised?"));
  EXPECT_THAT(machine_refusal("4x dgx-h100 over fat-tree:radxi=4"),
              HasSubstr("column 27: found `radxi`, expected one of"));
  EXPECT_THAT(machine_refusal("4x dgx-h100 over fat-tree:radxi=4"),
              HasSubstr("did you mean radix?"));
  EXPECT_THAT(machine_refusal("4x dgx-h100 over fat-tree:radix"),
              HasSubstr("column 32: found the end, expected `=`"));
  EXPECT_THAT(machine_refusal("4x dgx-h100 over fat-tree:radix=1"),
              HasSubstr("column 33: found `1`, expected a whole number from 2 to 1024"));
  EXPECT_THAT(machine_refusal("4x dgx-h100 over fat-tree:radix=4,radix=8"),
              HasSubstr("column 35: found `radix`, expected each setting once"));
  EXPECT_THAT(machine_refusal("4x dgx-h100 over fat-tree:radix=4,"),
              HasSubstr("column 35: found the end"));
  EXPECT_THAT(machine_refusal("4x dgx-h100 over torus"),
              HasSubstr("column 18: a torus needs sizes"));
  EXPECT_THAT(machine_refusal("4x dgx-h100 over torus:sizes=4x"),
              HasSubstr("column 30: found `4x`"));
  EXPECT_THAT(machine_refusal("4x dgx-h100 over torus:sizes="),
              HasSubstr("column 30: found the end"));
  EXPECT_THAT(machine_refusal("dgx-h100 with leaf3 0.5"),
              HasSubstr("column 21: found `0.5`, expected `at`"));
  EXPECT_THAT(machine_refusal("dgx-h100 with gpu0 at 2"),
              HasSubstr("column 23: found `2`, expected a factor"));
  EXPECT_THAT(machine_refusal("dgx-h100 and more"), HasSubstr("column 10: found `and`"));
  EXPECT_THAT(machine_refusal(std::string(5000, 'x')), HasSubstr("5000 characters are too many"));
}

TEST(MachineText, SaysWhichNodesAreUnknown) {
  const auto topology = machine_topology("2x dgx-h100 over rail-optimised with laef3 at 0.5");
  ASSERT_FALSE(topology);
  EXPECT_THAT(topology.error().what, HasSubstr("did you mean leaf3?"));
}

}  // namespace
}  // namespace tutti::topo
