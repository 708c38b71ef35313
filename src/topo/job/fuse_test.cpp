#include "src/topo/job/fuse.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/topo/format/json.hpp"
#include "src/topo/model/affinity.hpp"
#include "src/topo/model/builder.hpp"
#include "src/topo/model/fabric_graph.hpp"
#include "src/topo/model/paths.hpp"
#include "src/topo/model/wiring_hash.hpp"
#include "src/topo/nccl/xml.hpp"

namespace tutti::topo {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

/// What tests build hosts of: a topology that is changed before it is checked.
struct Sketch {
  Parts parts;
  NodeId add(NodeKind kind, std::string name, std::vector<Attribute> attributes = {},
             HostId host = 0) {
    parts.nodes.push_back({kind, host, std::move(name), std::move(attributes)});
    return static_cast<NodeId>(parts.nodes.size() - 1);
  }
  void join(NodeId a, NodeId b, LinkKind kind, double bandwidth, double latency = 0.5) {
    parts.links.push_back({a, b, kind, bandwidth, latency});
    parts.links.push_back({b, a, kind, bandwidth, latency});
  }
  [[nodiscard]] Noted noted(std::vector<std::string> assumptions = {}) const {
    return {*Topology::create(parts), std::move(assumptions)};
  }
};

/// Two CPU nodes of four CPUs each, with a NIC of 25 GB/s at each and its outside, as detection
/// tells of a host.
Sketch two_sockets(const std::string& name) {
  Sketch host;
  host.parts.hosts = {{name, {}}};
  const NodeId cpu0 = host.add(NodeKind::kCpu, "cpu0", {{"affinity", "0000000f"}});
  const NodeId cpu1 = host.add(NodeKind::kCpu, "cpu1", {{"affinity", "000000f0"}});
  host.join(cpu0, cpu1, LinkKind::kSystem, 16);
  for (const NodeId cpu : {cpu0, cpu1}) {
    const NodeId nic = host.add(NodeKind::kNic, fmt::format("mlx5_{}", cpu));
    host.join(nic, cpu, LinkKind::kPci, 24);
    const NodeId outside = host.add(NodeKind::kSwitch, fmt::format("mlx5_{}.network", cpu));
    host.join(nic, outside, LinkKind::kNetwork, 25, 0.6);
  }
  return host;
}

/// One CPU node, without any NIC.
Sketch lone(const std::string& name) {
  Sketch host;
  host.parts.hosts = {{name, {}}};
  host.add(NodeKind::kCpu, "cpu0");
  return host;
}

JobRank on(HostId host, const char* cpus = "") { return {host, *CpuMask::from_list(cpus)}; }

NodeId node(const Topology& topology, const std::string& name) {
  for (NodeId id = 0; id < topology.nodes().size(); ++id)
    if (full_name(topology, id) == name) return id;
  ADD_FAILURE() << "no node " << name;
  return 0;
}

TEST(Fuse, LeavesAJobOfOneHostAsItIs) {
  const Noted host = two_sockets("a").noted({"something"});
  const auto job = fuse(std::vector{host}, std::vector{on(0, "0-3")});
  ASSERT_TRUE(job) << job.error().what;
  EXPECT_EQ(job->topology, host.topology);
  EXPECT_EQ(job->wiring, wiring_hash(host.topology));
  EXPECT_THAT(job->placement.ranks, ElementsAre(0));
  EXPECT_THAT(job->assumptions, ElementsAre("something"));
}

TEST(Fuse, JoinsTwoHostsThatAreAlikeByASwitchAsFastAsEachNic) {
  const Noted host = two_sockets("vm").noted({"a link is guessed"});
  const auto job = fuse(std::vector{host, host}, std::vector{on(0, "0-3"), on(1, "4-7")});
  ASSERT_TRUE(job) << job.error().what;
  const Topology& topology = job->topology;
  ASSERT_EQ(topology.hosts().size(), 2U);
  EXPECT_EQ(topology.hosts()[0].name, "vm");
  EXPECT_EQ(topology.hosts()[1].name, "vm#2");
  EXPECT_EQ(topology.nodes().size(), 2 * host.topology.nodes().size() + 1);
  const NodeId from = node(topology, "vm/mlx5_0"), to = node(topology, "vm#2/mlx5_1");
  const Path path = PathFinder(topology).find(from, to);
  EXPECT_EQ(path.kind, PathKind::kNetwork);
  EXPECT_DOUBLE_EQ(path.bandwidth, 25);
  EXPECT_DOUBLE_EQ(path.latency, 1.2);  // the cables to the switch, once each
  EXPECT_EQ(cables_to_switches(topology, node(topology, "vm/mlx5_0.network")), 1U);
  EXPECT_THAT(job->assumptions, Contains("vm, vm#2: a link is guessed"));
  EXPECT_THAT(job->assumptions, Contains(HasSubstr("one switch that never blocks")));
  EXPECT_EQ(job->wiring, wiring_hash(topology));
  EXPECT_TRUE(check(job->placement, topology));
}

TEST(Fuse, KeepsWhatIsDifferentOfTwoHosts) {
  Sketch other = lone("b");
  const NodeId nic = other.add(NodeKind::kNic, "eth0", {{"speed", "100000"}});
  other.join(nic, 0, LinkKind::kPci, 12);
  const std::vector hosts = {two_sockets("a").noted(), other.noted()};
  const auto job = fuse(hosts, std::vector{on(0), on(1)});
  ASSERT_TRUE(job) << job.error().what;
  const Topology& topology = job->topology;
  PathFinder finder(topology);
  EXPECT_DOUBLE_EQ(finder.find(node(topology, "a/mlx5_0"), node(topology, "b/eth0")).bandwidth,
                   12.5);
  EXPECT_DOUBLE_EQ(finder.find(node(topology, "a/cpu0"), node(topology, "b/cpu0")).bandwidth, 12);
  const auto swapped = fuse(std::vector{hosts[1], hosts[0]}, std::vector{on(1), on(0)});
  ASSERT_TRUE(swapped);
  EXPECT_NE(swapped->wiring, job->wiring);
}

TEST(Fuse, LetsNicsOfOnePositionBeARailOfThreeHosts) {
  std::vector<Noted> hosts;
  for (const char* name : {"a", "b", "c"}) hosts.push_back(two_sockets(name).noted());
  const auto job = fuse(hosts, std::vector{on(0), on(1), on(2)});
  ASSERT_TRUE(job) << job.error().what;
  const Topology& topology = job->topology;
  EXPECT_THAT(rails(topology),
              ElementsAre(ElementsAre(node(topology, "a/mlx5_0"), node(topology, "b/mlx5_0"),
                                      node(topology, "c/mlx5_0")),
                          ElementsAre(node(topology, "a/mlx5_1"), node(topology, "b/mlx5_1"),
                                      node(topology, "c/mlx5_1"))));
  // The switch never blocks: hosts a and b send to c and back with all that their NICs carry.
  EXPECT_DOUBLE_EQ(Bisection(topology, {true, true, false}).flow(), 50);
}

TEST(Fuse, CountsThePortOfVirtualFunctionsOnce) {
  Sketch host = lone("a");
  const NodeId outside = host.add(NodeKind::kSwitch, "mlx5_0.network");
  for (const char* name : {"mlx5_0", "mlx5_1", "mlx5_2"}) {
    std::vector<Attribute> attributes;
    if (name != std::string("mlx5_0")) attributes = {{"physical_function", "0000:01:00.0"}};
    const NodeId nic = host.add(NodeKind::kNic, name, attributes);
    host.join(nic, 0, LinkKind::kPci, 24);
    host.join(nic, outside, LinkKind::kNetwork, 25);
  }
  const auto job = fuse(std::vector{host.noted(), host.noted()}, {});
  ASSERT_TRUE(job) << job.error().what;
  EXPECT_DOUBLE_EQ(Bisection(job->topology, {true, false}).flow(), 25);
}

TEST(Fuse, AssumesANicWhereThereIsNoneAndASpeedWhereNoneIsTold) {
  Sketch nameless = lone("b");
  nameless.join(nameless.add(NodeKind::kNic, "nic"), 0, LinkKind::kPci, 12);
  const auto job = fuse(std::vector{lone("a").noted(), nameless.noted()}, {});
  ASSERT_TRUE(job) << job.error().what;
  const Topology& topology = job->topology;
  const Path path = PathFinder(topology).find(node(topology, "a/cpu0"), node(topology, "b/cpu0"));
  EXPECT_EQ(path.kind, PathKind::kNetwork);
  EXPECT_DOUBLE_EQ(path.bandwidth, kAssumedNetworkBandwidth);
  EXPECT_THAT(job->assumptions, Contains("a: it shows no NIC: one of 10 Gbit/s is assumed"));
  EXPECT_THAT(job->assumptions,
              Contains("b/nic: no speed of its network is told: 10 Gbit/s is assumed"));
}

TEST(Fuse, TakesNodesWithoutAHostIntoTheOneThatTellsOfThem) {
  Sketch host = lone("a");
  const NodeId nic = host.add(NodeKind::kNic, "eth0");
  host.join(nic, 0, LinkKind::kPci, 12);
  host.join(nic, host.add(NodeKind::kSwitch, "cpu0", {}, kNoHost), LinkKind::kNetwork, 3);
  const auto job = fuse(std::vector{host.noted(), host.noted()}, {});
  ASSERT_TRUE(job) << job.error().what;
  EXPECT_EQ(switches_named(job->topology).size(), 1U);  // the network
  node(job->topology, "a#2/cpu0#2");
}

TEST(Fuse, FindsNamesForAnyNumberOfHostsOfOneName) {
  std::vector<Noted> hosts(3, lone("vm").noted());
  hosts.insert(hosts.begin(), lone("vm#2").noted());
  hosts.push_back(lone(std::string(256, 'x')).noted());
  hosts.push_back(hosts.back());
  const auto job = fuse(hosts, {});
  ASSERT_TRUE(job) << job.error().what;
  std::vector<std::string> names;
  for (const Host& host : job->topology.hosts()) names.push_back(host.name.substr(0, 6));
  EXPECT_THAT(names, ElementsAre("vm#2", "vm", "vm#3", "vm#4", "xxxxxx", "host#2"));
}

TEST(Fuse, PlacesRanksWhereTheyMayRun) {
  const auto ranks = std::vector{on(0, "4-7"), on(0, "0"), on(0, "5"), on(0, "100"), on(0), on(0)};
  const auto job = fuse(std::vector{two_sockets("a").noted()}, ranks);
  ASSERT_TRUE(job) << job.error().what;
  EXPECT_THAT(job->placement.ranks, ElementsAre(1, 0, 1, 0, 0, 1));
  EXPECT_THAT(job->assumptions, ElementsAre(HasSubstr("rank 3, rank 4, rank 5: bound to no one")));
}

TEST(Fuse, PlacesRanksOnGpusOnlyWhereThereIsNoCpu) {
  Sketch gpus;
  gpus.parts.hosts = {{"a", {}}};
  gpus.add(NodeKind::kGpu, "gpu0");
  gpus.add(NodeKind::kGpu, "gpu1");
  const auto job =
      fuse(std::vector{gpus.noted(), lone("b").noted()}, std::vector{on(0), on(1), on(0), on(0)});
  ASSERT_TRUE(job) << job.error().what;
  std::vector<std::string> places;
  for (const NodeId id : job->placement.ranks) places.push_back(full_name(job->topology, id));
  EXPECT_THAT(places, ElementsAre("a/gpu0", "b/cpu0", "a/gpu1", "a/gpu0"));
}

TEST(Fuse, RefusesWhatIsNotOneHost) {
  Sketch two = lone("a");
  two.parts.hosts.push_back({"b", {}});
  Sketch empty;
  empty.parts.hosts = {{"a", {}}};
  EXPECT_THAT(fuse(std::vector{lone("a").noted(), two.noted()}, {}).error().what,
              HasSubstr("host 1: it describes 2 hosts"));
  EXPECT_THAT(fuse(std::vector{empty.noted()}, {}).error().what, HasSubstr("no CPU or GPU"));
  EXPECT_THAT(fuse(std::vector{lone("a").noted()}, std::vector{on(1)}).error().what,
              HasSubstr("rank 0 is on host 1, but there are 1"));
}

TEST(Fuse, NeedsNoMoreThanIsLeftWithoutDetails) {
  Noted host = two_sockets("a").noted({"x"});
  Parts parts = host.topology.parts();
  parts.hosts[0].attributes = {{"maker", "somebody"}};
  parts.nodes[0].attributes.push_back({"vendor", "AuthenticAMD"});
  const Noted detailed = {*Topology::create(parts), {"x"}};
  EXPECT_EQ(without_details(detailed).topology, host.topology);
  const auto ranks = std::vector{on(0, "4-7"), on(1)};
  EXPECT_EQ(fuse(std::vector{detailed, detailed}, ranks)->placement,
            fuse(std::vector{host, host}, ranks)->placement);
}

TEST(Fuse, WritesFilesThatAreReadBackWithTheSameHosts) {
  const auto job = fuse(std::vector{two_sockets("a").noted(), two_sockets("b").noted()}, {});
  ASSERT_TRUE(job) << job.error().what;
  EXPECT_EQ(*parse_topology_json(topology_json(job->topology)), job->topology);
  const auto xml = write_nccl_xml(job->topology);
  ASSERT_TRUE(xml) << xml.error().what;
  const auto again = read_nccl_xml(*xml);
  ASSERT_TRUE(again) << again.error().what;
  EXPECT_EQ(again->topology.hosts().size(), 2U);
  for (const NodeKind kind : {NodeKind::kCpu, NodeKind::kNic})
    EXPECT_EQ(nodes_of_kind(again->topology, kind).size(), 4U);
}

TEST(Fuse, KeepsHostsThatCameFromOneFileApartInNcclsXml) {
  constexpr const char* kFile = R"(<system version="1">
    <cpu numaid="0" host_hash="0x7" affinity="f" arch="x86_64"><pci busid="0000:01:00.0"
      class="0x020000" link_speed="16.0 GT/s PCIe" link_width="16"><nic><net name="eth0" dev="0"
      speed="25000"/></nic></pci></cpu></system>)";
  const Noted host = *read_nccl_xml(kFile);
  const auto job = fuse(std::vector{host, host}, {});
  ASSERT_TRUE(job) << job.error().what;
  const auto xml = write_nccl_xml(job->topology);
  ASSERT_TRUE(xml) << xml.error().what;
  const auto again = read_nccl_xml(*xml);
  ASSERT_TRUE(again) << again.error().what << *xml;
  EXPECT_EQ(again->topology.hosts().size(), 2U) << *xml;
}

TEST(Fuse, KnowsOneCpuOfAnUnknownHost) {
  const Noted host = unknown_host("a", "it tells nothing");
  EXPECT_TRUE(check_host(host.topology));
  EXPECT_EQ(host.topology.hosts()[0].name, "a");
  EXPECT_THAT(host.assumptions, ElementsAre("it tells nothing"));
}

}  // namespace
}  // namespace tutti::topo
