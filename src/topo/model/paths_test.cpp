#include "src/topo/model/paths.hpp"

#include <map>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/topo/model/bandwidths.hpp"
#include "src/topo/model/builder.hpp"

namespace tutti::topo {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A topology made by hand whose nodes are called by their names, "host/node".
class Machine {
 public:
  explicit Machine(Builder builder) : topology_(*std::move(builder).create()) {
    for (NodeId id = 0; id < topology_.nodes().size(); ++id) ids_[full_name(topology_, id)] = id;
  }
  Path find(const std::string& from, const std::string& to, std::uint64_t flow = 0) {
    return finder_.find(ids_.at(from), ids_.at(to), flow);
  }
  std::string_view kind(const std::string& from, const std::string& to) {
    EXPECT_EQ(find(from, to).kind, find(to, from).kind) << from << " " << to;
    return name_of(find(from, to).kind);
  }
  /// The nodes between the ends.
  std::vector<std::string> between(const std::string& from, const std::string& to,
                                   std::uint64_t flow = 0) {
    std::vector<std::string> names;
    for (const LinkId id : find(from, to, flow).links)
      names.push_back(full_name(topology_, topology_.link(id).to));
    if (!names.empty()) names.pop_back();
    return names;
  }
  [[nodiscard]] const Topology& topology() const { return topology_; }

 private:
  Topology topology_;
  PathFinder finder_{topology_};
  std::map<std::string, NodeId> ids_;
};

/// Two sockets; a PCI switch with GPUs 0 and 1 and a NIC, one below it with GPU 2, GPU 3 on the
/// first socket itself and GPU 4 and a NIC on the second one.
Builder two_sockets() {
  Builder builder;
  const HostId host = builder.host("h");
  const auto node = [&](NodeKind kind, const char* name) { return builder.node(kind, host, name); };
  const auto cpu0 = node(NodeKind::kCpu, "cpu0"), cpu1 = node(NodeKind::kCpu, "cpu1");
  const auto upper = node(NodeKind::kPci, "upper"), lower = node(NodeKind::kPci, "lower");
  builder.join(cpu0, cpu1, LinkKind::kSystem, 10, 0.5);
  const auto plug = [&](NodeId a, NodeId b) { builder.join(a, b, LinkKind::kPci, 12, 0.25); };
  plug(cpu0, upper);
  plug(upper, lower);
  plug(upper, node(NodeKind::kGpu, "gpu0"));
  plug(upper, node(NodeKind::kGpu, "gpu1"));
  plug(upper, node(NodeKind::kNic, "nic0"));
  plug(lower, node(NodeKind::kGpu, "gpu2"));
  plug(cpu0, node(NodeKind::kGpu, "gpu3"));
  plug(cpu1, node(NodeKind::kGpu, "gpu4"));
  plug(cpu1, node(NodeKind::kNic, "nic1"));
  return builder;
}

TEST(Paths, InABoxOfTwoSocketsHaveNcclsKinds) {
  Machine box(two_sockets());
  EXPECT_EQ(box.kind("h/gpu0", "h/gpu0"), "LOC");
  EXPECT_EQ(box.kind("h/gpu0", "h/gpu1"), "PIX");
  EXPECT_EQ(box.kind("h/gpu0", "h/nic0"), "PIX");
  EXPECT_EQ(box.kind("h/gpu0", "h/gpu2"), "PXB");
  EXPECT_EQ(box.kind("h/nic0", "h/gpu2"), "PXB");
  EXPECT_EQ(box.kind("h/gpu0", "h/gpu3"), "PHB");
  EXPECT_EQ(box.kind("h/gpu0", "h/cpu0"), "PHB");
  EXPECT_EQ(box.kind("h/gpu4", "h/nic1"), "PHB");
  EXPECT_EQ(box.kind("h/gpu0", "h/gpu4"), "SYS");
  EXPECT_EQ(box.kind("h/gpu0", "h/nic1"), "SYS");
  EXPECT_EQ(box.kind("h/cpu0", "h/cpu1"), "SYS");
}

TEST(Paths, CarryTheirLinksBandwidthAndLatency) {
  Machine box(two_sockets());
  const Path path = box.find("h/gpu0", "h/gpu4");
  EXPECT_EQ(path.bandwidth, 10);
  EXPECT_EQ(path.latency, 0.25 + 0.25 + 0.5 + 0.25);
  EXPECT_THAT(box.between("h/gpu0", "h/gpu4"), ElementsAre("h/upper", "h/cpu0", "h/cpu1"));
  const Path here = box.find("h/gpu0", "h/gpu0");
  EXPECT_EQ(here, (Path{PathKind::kLocal, kLocalBandwidth, 0, {}}));
}

TEST(Paths, DoNotLeadThroughANicWithAFootInTwoSockets) {
  Builder builder = two_sockets();
  builder.join(2, 6, LinkKind::kPci, 100, 0);  // upper - nic0, wide
  builder.join(1, 6, LinkKind::kPci, 100, 0);  // cpu1 - nic0
  Machine box(std::move(builder));
  EXPECT_EQ(box.kind("h/gpu0", "h/gpu4"), "SYS");
}

/// The hybrid cube mesh of DGX-1V: two quads, NVLinks of single (25) and double (50) width.
/// NVIDIA's DGX-1 white paper (WP-08437) shows it.
Builder cube_mesh() {
  Builder builder;
  const HostId host = builder.host("h");
  std::vector<NodeId> cpus, gpus;
  for (int i = 0; i < 2; ++i)
    cpus.push_back(builder.node(NodeKind::kCpu, host, fmt::format("cpu{}", i)));
  builder.join(cpus[0], cpus[1], LinkKind::kSystem, 10);
  for (std::size_t i = 0; i < 4; ++i) {
    const NodeId pci = builder.node(NodeKind::kPci, host, fmt::format("pci{}", i));
    builder.join(cpus[i / 2], pci, LinkKind::kPci, 12);
    for (std::size_t j = 2 * i; j < 2 * i + 2; ++j) {
      gpus.push_back(builder.node(NodeKind::kGpu, host, fmt::format("gpu{}", j)));
      builder.join(pci, gpus[j], LinkKind::kPci, 12);
    }
  }
  const int wide[][2] = {{0, 3}, {0, 4}, {1, 2}, {1, 5}, {2, 3}, {4, 7}, {5, 6}, {6, 7}};
  const int narrow[][2] = {{0, 1}, {0, 2}, {1, 3}, {2, 6}, {3, 7}, {4, 5}, {4, 6}, {5, 7}};
  for (const auto& [a, b] : wide) builder.join(gpus[a], gpus[b], LinkKind::kNvlink, 50);
  for (const auto& [a, b] : narrow) builder.join(gpus[a], gpus[b], LinkKind::kNvlink, 25);
  return builder;
}

TEST(Paths, InACubeMeshTakeOneRelayInsteadOfTheCpu) {
  Machine mesh(cube_mesh());
  int direct = 0, relayed = 0;
  for (int a = 0; a < 8; ++a)
    for (int b = 0; b < a; ++b) {
      const auto kind = mesh.kind(fmt::format("h/gpu{}", a), fmt::format("h/gpu{}", b));
      direct += kind == "NVL";
      relayed += kind == "NVB";
    }
  EXPECT_EQ(direct, 16);
  EXPECT_EQ(relayed, 12);
  EXPECT_EQ(mesh.find("h/gpu0", "h/gpu3").bandwidth, 50);
  EXPECT_EQ(mesh.find("h/gpu0", "h/gpu7").bandwidth, 50);  // 0-4-7, where 0-3-7 has 25
  EXPECT_THAT(mesh.between("h/gpu0", "h/gpu7"), ElementsAre("h/gpu4"));
  EXPECT_EQ(mesh.kind("h/gpu0", "h/cpu1"), "SYS");
}

TEST(Paths, TakeNoMoreThanOneRelay) {
  Builder builder;
  const HostId host = builder.host("h");
  for (NodeId i = 0; i < 4; ++i) {
    builder.node(NodeKind::kGpu, host, fmt::format("gpu{}", i));
    if (i > 0) builder.join(i - 1, i, LinkKind::kNvlink, 20);
  }
  Machine chain(std::move(builder));
  EXPECT_EQ(chain.kind("h/gpu0", "h/gpu2"), "NVB");
  EXPECT_EQ(chain.kind("h/gpu0", "h/gpu3"), "DIS");
  EXPECT_EQ(chain.find("h/gpu0", "h/gpu3"), Path());
}

TEST(Paths, PreferNvlinkWithTwoSwitchesToPciWithOne) {
  Builder builder;
  const HostId host = builder.host("h");
  const auto gpu0 = builder.node(NodeKind::kGpu, host, "gpu0");
  const auto gpu1 = builder.node(NodeKind::kGpu, host, "gpu1");
  const auto left = builder.node(NodeKind::kNvswitch, host, "left");
  const auto right = builder.node(NodeKind::kNvswitch, kNoHost, "right");
  const auto pci = builder.node(NodeKind::kPci, host, "pci");
  builder.join(gpu0, left, LinkKind::kNvlink, 450);
  builder.join(left, right, LinkKind::kNvlink, 5);
  builder.join(right, gpu1, LinkKind::kNvlink, 450);
  builder.join(gpu0, pci, LinkKind::kPci, 48);
  builder.join(gpu1, pci, LinkKind::kPci, 48);
  Machine box(std::move(builder));
  EXPECT_EQ(box.kind("h/gpu0", "h/gpu1"), "NVL");
  EXPECT_EQ(box.find("h/gpu0", "h/gpu1").bandwidth, 5);
}

TEST(Paths, OverAChipToChipLinkAreC2cAndToPciDevicesP2c) {
  Builder builder;
  const HostId host = builder.host("h");
  const auto cpu = builder.node(NodeKind::kCpu, host, "cpu");
  for (const char* name : {"gpu0", "gpu1"})
    builder.join(cpu, builder.node(NodeKind::kGpu, host, name), LinkKind::kC2c, 300);
  builder.join(cpu, builder.node(NodeKind::kNic, host, "nic"), LinkKind::kPci, 48);
  builder.join(cpu, builder.node(NodeKind::kNic, host, "other"), LinkKind::kPci, 48);
  Machine superchip(std::move(builder));
  EXPECT_EQ(superchip.kind("h/gpu0", "h/cpu"), "C2C");
  EXPECT_EQ(superchip.kind("h/gpu0", "h/gpu1"), "C2C");
  EXPECT_EQ(superchip.kind("h/gpu0", "h/nic"), "P2C");
  EXPECT_EQ(superchip.kind("h/nic", "h/other"), "PHB");
}

/// `hosts` hosts of two GPUs, each beside its NIC below a PCI switch, the GPUs joined by NVLink;
/// NIC i of every host plugs into leaf i, and `spines` switches join the leaves.
Builder rails_of_two(int hosts, int spines) {
  Builder builder;
  std::vector<NodeId> leaves;
  for (int i = 0; i < 2; ++i)
    leaves.push_back(builder.node(NodeKind::kSwitch, kNoHost, fmt::format("leaf{}", i)));
  for (int i = 0; i < spines; ++i) {
    const NodeId spine = builder.node(NodeKind::kSwitch, kNoHost, fmt::format("spine{}", i));
    for (const NodeId leaf : leaves) builder.join(leaf, spine, LinkKind::kNetwork, 100);
  }
  for (int h = 0; h < hosts; ++h) {
    const HostId host = builder.host(fmt::format("h{}", h));
    const NodeId cpu = builder.node(NodeKind::kCpu, host, "cpu");
    NodeId gpus[2];
    for (std::size_t i = 0; i < 2; ++i) {
      const NodeId pci = builder.node(NodeKind::kPci, host, fmt::format("pci{}", i));
      const NodeId nic = builder.node(NodeKind::kNic, host, fmt::format("nic{}", i));
      gpus[i] = builder.node(NodeKind::kGpu, host, fmt::format("gpu{}", i));
      builder.join(cpu, pci, LinkKind::kPci, 48);
      builder.join(pci, gpus[i], LinkKind::kPci, 48);
      builder.join(pci, nic, LinkKind::kPci, 48);
      builder.join(nic, leaves[i], LinkKind::kNetwork, 50);
    }
    builder.join(gpus[0], gpus[1], LinkKind::kNvlink, 200);
  }
  return builder;
}

TEST(Paths, BetweenHostsStayOnTheRailOfBothEnds) {
  Machine cluster(rails_of_two(3, 2));
  EXPECT_EQ(cluster.kind("h0/gpu0", "h1/gpu0"), "NET");
  EXPECT_THAT(cluster.between("h0/gpu0", "h1/gpu0"),
              ElementsAre("h0/pci0", "h0/nic0", "leaf0", "h1/nic0", "h1/pci0"));
  EXPECT_EQ(cluster.find("h0/gpu0", "h1/gpu0").bandwidth, 48);
  EXPECT_EQ(cluster.kind("h0/nic0", "leaf1"), "NET");
}

TEST(Paths, BetweenRailsCrossASpineRatherThanACpu) {
  Machine cluster(rails_of_two(2, 1));
  // As many links lead through the other NIC of h0, but those across its CPU.
  EXPECT_THAT(cluster.between("h0/gpu0", "h1/gpu1"),
              ElementsAre("h0/pci0", "h0/nic0", "leaf0", "spine0", "leaf1", "h1/nic1", "h1/pci1"));
}

TEST(Paths, BetweenRailsWithoutASpineCrossACpuOfOneEnd) {
  Machine cluster(rails_of_two(3, 0));
  const auto between = cluster.between("h0/gpu0", "h1/gpu1");
  EXPECT_EQ(between.size(), 7U);
  for (const std::string& name : between) EXPECT_FALSE(name.starts_with("h2/")) << name;
}

TEST(Paths, InsideAHostDoNotUseTheNetwork) {
  Machine cluster(rails_of_two(1, 4));
  EXPECT_EQ(cluster.kind("h0/nic0", "h0/nic1"), "PHB");
  EXPECT_EQ(cluster.kind("h0/gpu0", "h0/gpu1"), "NVL");
}

TEST(Paths, InsideAHostUseTheNetworkWhereThereIsNothingElse) {
  Builder builder;
  const HostId host = builder.host("h");
  const NodeId leaf = builder.node(NodeKind::kSwitch, kNoHost, "leaf");
  for (int i = 0; i < 2; ++i) {
    const NodeId cpu = builder.node(NodeKind::kCpu, host, fmt::format("cpu{}", i));
    const NodeId nic = builder.node(NodeKind::kNic, host, fmt::format("nic{}", i));
    builder.join(cpu, nic, LinkKind::kPci, 12);
    builder.join(nic, leaf, LinkKind::kNetwork, 10);
  }
  Machine halves(std::move(builder));
  EXPECT_EQ(halves.kind("h/cpu0", "h/cpu1"), "NET");
}

TEST(Paths, OfManyFlowsSpreadOverTheSpines) {
  constexpr int kSpines = 4, kFlows = 4000;
  Machine cluster(rails_of_two(2, kSpines));
  std::map<std::string, int> used;
  for (std::uint64_t flow = 0; flow < kFlows; ++flow)
    ++used[cluster.between("h0/gpu0", "h1/gpu1", flow).at(3)];
  ASSERT_EQ(used.size(), kSpines);
  for (const auto& [spine, count] : used)
    EXPECT_NEAR(count, kFlows / kSpines, kFlows / kSpines / 5) << spine;
  EXPECT_EQ(cluster.find("h0/gpu0", "h1/gpu1", 7), cluster.find("h0/gpu0", "h1/gpu1", 7));
}

TEST(Paths, TakeTheWiderOfTwoWaysOfEqualLength) {
  Builder builder = rails_of_two(2, 1);
  const NodeId wide = builder.node(NodeKind::kSwitch, kNoHost, "wide");
  builder.join(0, 2, LinkKind::kNetwork, 10);  // a second cable, narrower, to the first spine
  for (const NodeId leaf : {0U, 1U}) builder.join(leaf, wide, LinkKind::kNetwork, 400);
  Machine cluster(std::move(builder));
  EXPECT_THAT(cluster.between("leaf0", "leaf1"), ElementsAre("wide"));
  EXPECT_EQ(cluster.find("leaf0", "spine0").bandwidth, 100);
}

TEST(Paths, AcrossHostsOfOneNvlinkDomainAreNvlink) {
  Builder builder;
  const NodeId plane = builder.node(NodeKind::kNvswitch, kNoHost, "plane");
  for (const char* name : {"a", "b"})
    builder.join(plane, builder.node(NodeKind::kGpu, builder.host(name), "gpu"), LinkKind::kNvlink,
                 900);
  Machine rack(std::move(builder));
  EXPECT_EQ(rack.kind("a/gpu", "b/gpu"), "NVL");
}

TEST(Paths, FollowTheDirectionOfLinks) {
  Parts parts;
  parts.nodes = {{NodeKind::kSwitch, kNoHost, "a", {}}, {NodeKind::kSwitch, kNoHost, "b", {}}};
  parts.links = {{0, 1, LinkKind::kNetwork, 10, 1}};
  const Topology topology = *Topology::create(parts);
  PathFinder finder(topology);
  EXPECT_EQ(finder.find(0, 1).kind, PathKind::kNetwork);
  EXPECT_EQ(finder.find(1, 0).kind, PathKind::kDisconnected);
}

TEST(Paths, MayBeAskedForInAnyOrder) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  const Topology topology = *rails_of_two(4, 3).create();
  PathFinder used(topology);
  const auto node = [&] { return static_cast<NodeId>(random() % topology.nodes().size()); };
  for (int i = 0; i < 500; ++i) {
    const NodeId from = node(), to = node();
    PathFinder fresh(topology);
    const Path path = used.find(from, to);
    ASSERT_EQ(path, fresh.find(from, to)) << from << " " << to;
    NodeId at = from;
    for (const LinkId id : path.links) {
      ASSERT_EQ(topology.link(id).from, at);
      at = topology.link(id).to;
    }
    ASSERT_EQ(at, to);
  }
}

}  // namespace
}  // namespace tutti::topo
