#include "tools/machines/synthetic.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/topo/model/affinity.hpp"
#include "src/topo/model/aggregation.hpp"
#include "src/topo/model/paths.hpp"

namespace tutti::topo {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::SizeIs;

std::string synthetic_error(std::string_view text) {
  const auto parsed = parse_synthetic(text);
  if (parsed) return "";
  EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
  return parsed.error().what;
}

Topology made(std::string_view text) {
  auto topology = synthetic_topology(text);
  EXPECT_TRUE(topology) << text << ": " << topology.error().what;
  return *std::move(topology);
}

std::map<NodeKind, std::size_t> counts(const Topology& topology) {
  std::map<NodeKind, std::size_t> of_kind;
  for (const Node& node : topology.nodes()) ++of_kind[node.kind];
  return of_kind;
}

TEST(SyntheticText, SaysHostsAndRanksAndSettings) {
  const auto spec = parse_synthetic(
      "gpu:3x4,net=400Gb/s,nvlink=0,nics=2,fabric=switch,pci=24GB/s,system=5,latency=900ns");
  ASSERT_TRUE(spec) << spec.error().what;
  Synthetic expected;
  expected.sizes = {3, 4};
  expected.nics = 2;
  expected.fabric = Synthetic::Fabric::kSwitch;
  expected.network = 50;
  expected.nvlink = 0;
  expected.pci = 24;
  expected.system = 5;
  expected.latency = 0.9;
  EXPECT_EQ(*spec, expected);
}

TEST(SyntheticText, HasDefaultsAndShortForms) {
  EXPECT_EQ(*parse_synthetic("gpu:8"), *parse_synthetic("gpu:1x8"));
  EXPECT_EQ(*parse_synthetic("cpu:2x8@10GB/s"), *parse_synthetic("cpu:2x8,net=10"));
  EXPECT_EQ(*parse_synthetic("ring:8@25"), *parse_synthetic("ring:8,link=25GB/s"));
  EXPECT_EQ(parse_synthetic("gpu:2x8")->nics, 8U);
  EXPECT_EQ(parse_synthetic("cpu:2x8")->nics, 1U);
  EXPECT_EQ(parse_synthetic("gpu:2x8,net=10")->network, 10);
  EXPECT_EQ(parse_synthetic("cpu:2x8,net=800Mb/s")->network, 0.1);
  EXPECT_EQ(parse_synthetic("torus:2x2x2,latency=2ms")->latency, 2000);
}

TEST(SyntheticText, NamesTheColumnThatIsWrong) {
  EXPECT_EQ(synthetic_error(""),
            "column 1: found the end, expected one of gpu, cpu, tofino, ring, torus and mesh");
  EXPECT_EQ(
      synthetic_error("tours:4"),
      "column 1: found `tours:4`, expected one of gpu, cpu, tofino, ring, torus and mesh; did you "
      "mean torus?");
  EXPECT_EQ(synthetic_error("gpu"), "column 4: found the end, expected `:`");
  EXPECT_EQ(synthetic_error("gpu:"), "column 5: found the end, expected a number from 1 to 65536");
  EXPECT_EQ(synthetic_error("gpu:0x4"), "column 5: found `0x4`, expected a number from 1 to 65536");
  EXPECT_EQ(synthetic_error("gpu:2x-4"), "column 7: found `-4`, expected a number from 1 to 65536");
  EXPECT_EQ(synthetic_error("gpu:2x4x8"), "column 9: found `8`, expected no more than 2 numbers");
  EXPECT_EQ(synthetic_error("gpu:8 "),
            "column 6: found ` `, expected `,` and a setting, or the end");
  EXPECT_EQ(synthetic_error("ring:8,lnik=3"),
            "column 8: found `lnik=3`, expected one of link, latency; did you mean link?");
  EXPECT_EQ(synthetic_error("cpu:8,nvlink=3"),
            "column 7: found `nvlink=3`, expected one of net, nics, fabric, spines, memory, "
            "latency, sharp");
  EXPECT_EQ(synthetic_error("gpu:8,net:3"), "column 10: found `:3`, expected `=`");
  EXPECT_EQ(synthetic_error("gpu:8,net=1,pci=2,net=3"),
            "column 19: found `net=3`, expected each setting once");
  EXPECT_EQ(synthetic_error("gpu:8,fabric=dragonfly"),
            "column 14: found `dragonfly`, expected rails or switch");
  EXPECT_EQ(synthetic_error("gpu:8,nics=257"),
            "column 12: found `257`, expected a number from 1 to 256");
  for (const char* number : {"", "x", "-1", "0", "nan", "inf", "1e3", "1000001", "5us", "5GB"})
    EXPECT_EQ(synthetic_error(fmt::format("gpu:8,net={}", number)),
              fmt::format("column 11: found {}, expected a bandwidth from 1e-06 to 1000000 GB/s, "
                          "its unit one of GB/s, MB/s, Gb/s, Mb/s",
                          *number ? fmt::format("`{}`", number) : "the end"));
  EXPECT_THAT(synthetic_error("gpu:8,latency=1GB/s"), EndsWith("its unit one of us, ns, ms"));
}

TEST(SyntheticText, HasLimits) {
  EXPECT_EQ(synthetic_error("cpu:256x256"), "");
  EXPECT_EQ(synthetic_error("cpu:256x257"), "column 5: 65792 ranks are too many: at most 65536");
  EXPECT_EQ(synthetic_error("torus:65536x65536x65536"),
            "column 7: 281474976710656 ranks are too many: at most 65536");
  EXPECT_EQ(synthetic_error("cpu:1000x1,nics=100"),
            "100 NICs on each of 1000 hosts are too many: at most 65536 together");
}

TEST(SyntheticMachine, OfGpusHasAnNvswitchAndRails) {
  const Topology topology = made("gpu:4x8,spines=2");
  EXPECT_THAT(counts(topology),
              ElementsAre(std::pair(NodeKind::kGpu, 32), std::pair(NodeKind::kCpu, 8),
                          std::pair(NodeKind::kPci, 32), std::pair(NodeKind::kNvswitch, 4),
                          std::pair(NodeKind::kNic, 32), std::pair(NodeKind::kSwitch, 10)));
  EXPECT_THAT(one_rank_each(topology).ranks, SizeIs(32));
  EXPECT_THAT(rails(topology), SizeIs(8));
  PathFinder finder(topology);
  const auto gpus = one_rank_each(topology).ranks;
  EXPECT_EQ(finder.find(gpus[0], gpus[7]).kind, PathKind::kNvlink);
  EXPECT_EQ(finder.find(gpus[0], gpus[7]).bandwidth, 450);
  const Path rail = finder.find(gpus[3], gpus[11]), across = finder.find(gpus[3], gpus[12]);
  EXPECT_EQ(rail.kind, PathKind::kNetwork);
  EXPECT_EQ(rail.bandwidth, 48);
  EXPECT_EQ(rail.links.size() + 2, across.links.size());
  for (const NodeId gpu : gpus) EXPECT_THAT(nearest_nics(finder, gpu), SizeIs(1));
}

TEST(SyntheticMachine, OfGpusWithoutNvlinkGoesOverPci) {
  const Topology topology = made("gpu:4,nvlink=0");
  PathFinder finder(topology);
  const auto gpus = one_rank_each(topology).ranks;
  EXPECT_EQ(finder.find(gpus[0], gpus[1]).kind, PathKind::kHostBridge);
  EXPECT_EQ(finder.find(gpus[0], gpus[3]).kind, PathKind::kSystem);
}

TEST(SyntheticMachine, SharesNicsBetweenNeighbours) {
  const Topology topology = made("gpu:2x8,nics=2,fabric=switch");
  EXPECT_EQ(counts(topology)[NodeKind::kSwitch], 1U);
  EXPECT_THAT(rails(topology), SizeIs(2));
  EXPECT_THAT(counts(made("gpu:2x2,nics=5"))[NodeKind::kNic], 10U);
}

TEST(SyntheticMachine, OfCpusMovesDataThroughTheMemoryOfItsHost) {
  const Topology topology = made("cpu:2x8@10GB/s,memory=7");
  PathFinder finder(topology);
  const auto cpus = one_rank_each(topology).ranks;
  ASSERT_THAT(cpus, SizeIs(16));
  EXPECT_EQ(finder.find(cpus[0], cpus[7]).kind, PathKind::kSystem);
  EXPECT_EQ(finder.find(cpus[0], cpus[7]).bandwidth, 7);
  EXPECT_EQ(finder.find(cpus[0], cpus[8]).kind, PathKind::kNetwork);
  EXPECT_EQ(made("cpu:1").hosts().size(), 1U);
}

/// Links between routers on the way from rank 0 to each rank.
std::vector<std::size_t> hops(const Topology& topology) {
  PathFinder finder(topology);
  std::vector<std::size_t> hops;
  const auto gpus = one_rank_each(topology).ranks;
  for (const NodeId gpu : gpus) {
    const Path path = finder.find(gpus[0], gpu);
    hops.push_back(path.links.empty() ? 0 : path.links.size() - 2);
    EXPECT_EQ(path.latency, static_cast<double>(hops.back()));
  }
  return hops;
}

TEST(SyntheticMachine, OfARingATorusOrAMeshHasTheirDistances) {
  EXPECT_THAT(hops(made("ring:6")), ElementsAre(0, 1, 2, 3, 2, 1));
  EXPECT_THAT(hops(made("mesh:6")), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(hops(made("torus:3x4")), ElementsAre(0, 1, 2, 1, 1, 2, 3, 2, 1, 2, 3, 2));
  EXPECT_THAT(hops(made("torus:2x2x2")), ElementsAre(0, 1, 1, 2, 1, 2, 2, 3));
  EXPECT_THAT(hops(made("ring:1")), ElementsAre(0));
  const auto cube = hops(made("torus:4x4x4"));
  EXPECT_EQ(*std::ranges::max_element(cube), 6U);
}

TEST(SyntheticMachine, HasEachLinkOfATorusOnce) {
  // A GPU and three links per position, both ways; two-long dimensions have one link, not two.
  EXPECT_THAT(made("torus:4x4x4").links(), SizeIs(64 * (1 + 3) * 2));
  EXPECT_THAT(made("torus:2x4").links(), SizeIs((8 + 4 + 8) * 2));
  EXPECT_THAT(made("mesh:3x3").links(), SizeIs((9 + 12) * 2));
}

TEST(SyntheticMachine, NamesPositionsByTheirCoordinates) {
  const Topology topology = made("torus:2x3x4");
  EXPECT_EQ(topology.hosts()[0].name, "0.0.0");
  EXPECT_EQ(topology.hosts()[23].name, "1.2.3");
  EXPECT_EQ(topology.hosts()[13].name, "1.0.1");
}

TEST(SyntheticMachine, OfTenThousandGpusCanBeAskedForItsRing) {
  const Topology topology = made("gpu:1250x8,spines=8");
  PathFinder finder(topology);
  const auto gpus = one_rank_each(topology).ranks;
  ASSERT_THAT(gpus, SizeIs(10000));
  for (std::size_t i = 0; i < gpus.size(); i += 8) {
    EXPECT_EQ(finder.find(gpus[i], gpus[i + 1]).kind, PathKind::kNvlink);
    EXPECT_EQ(finder.find(gpus[i + 7], gpus[(i + 8) % gpus.size()]).kind, PathKind::kNetwork);
  }
}

/// The attribute of the node of that name.
std::string aggregation_of_node(std::string_view text, std::string_view name) {
  const auto topology = synthetic_topology(text);
  EXPECT_TRUE(topology) << topology.error().what;
  for (NodeId id = 0; id < topology->nodes().size(); ++id) {
    if (full_name(*topology, id) != name) continue;
    const auto aggregation = aggregation_of(*topology, id);
    EXPECT_TRUE(aggregation) << aggregation.error().what;
    return *aggregation ? text_of(**aggregation) : "none";
  }
  return "no such node";
}

TEST(SyntheticMachine, HasSwitchesThatAddWhereTheTextSaysSo) {
  EXPECT_EQ(aggregation_of_node("gpu:2x4", "h0/nvswitch"), "none");
  EXPECT_EQ(aggregation_of_node("gpu:2x4,nvls=1", "h0/nvswitch"),
            "trees=1024,outstanding=0,parts=1");
  EXPECT_EQ(aggregation_of_node("gpu:2x4,nvls=1", "leaf0"), "none");
  EXPECT_EQ(aggregation_of_node("gpu:2x4,sharp=8", "leaf0"), "trees=8");
  EXPECT_EQ(aggregation_of_node("gpu:2x4,sharp=8", "spine0"), "trees=8");
  EXPECT_EQ(aggregation_of_node("cpu:2x4,sharp=2,fabric=switch", "switch"), "trees=2");
}

TEST(SyntheticMachine, OfATofinoKeepsItsSlots) {
  EXPECT_EQ(aggregation_of_node("tofino:8", "switch"), "trees=1,outstanding=0,window=131072");
  EXPECT_EQ(aggregation_of_node("tofino:8,slots=64,packet=256", "switch"),
            "trees=1,outstanding=0,window=16384");
  const auto topology = synthetic_topology("tofino:8@100Gb/s");
  ASSERT_TRUE(topology) << topology.error().what;
  EXPECT_EQ(topology->hosts().size(), 8U);
  EXPECT_EQ(one_rank_each(*topology).ranks.size(), 8U);
  EXPECT_THAT(synthetic_error("tofino:8x2"), testing::HasSubstr("no more than 1 numbers"));
}

}  // namespace
}  // namespace tutti::topo
