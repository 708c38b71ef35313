#include "src/topo/detect/detect.hpp"

#include <cstdint>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/result.hpp"
#include "src/topo/detect/probe.hpp"
#include "src/topo/detect/recorded.hpp"
#include "src/topo/hwloc/xml.hpp"
#include "src/topo/model/affinity.hpp"

namespace tutti::topo {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string text_of(const std::string& machine) {
  std::ifstream stream(std::string(TUTTI_TEST_DATA) + "/" + machine);
  EXPECT_TRUE(stream) << machine;
  return {std::istreambuf_iterator<char>(stream), {}};
}

Result<Noted> try_detect(const std::string& text) {
  TUTTI_ASSIGN(Recording recording, Recording::parse(text));
  RecordedProbe probe(std::move(recording));
  return detect(probe);
}

Noted detected(const std::string& text) {
  auto noted = try_detect(text);
  EXPECT_TRUE(noted) << noted.error().what;
  return noted ? *std::move(noted) : Noted{*Topology::create({}), {}};
}

/// A machine of one CPU, or of two, and what else `lines` say.
std::string small_machine(const std::string& lines, int cpus = 1) {
  std::string text = "tutti machine 1\n/proc/sys/kernel/hostname: small\n";
  for (int i = 0; i < cpus; ++i)
    text += "/sys/devices/system/node/node" + std::to_string(i) + "/cpulist: " + std::to_string(i) +
            "\n";
  return text + lines;
}

std::vector<std::string> names(const Topology& topology, NodeKind kind) {
  std::vector<std::string> found;
  for (const Node& node : topology.nodes())
    if (node.kind == kind) found.push_back(node.name);
  return found;
}

const Link* find_link(const Topology& topology, std::string_view from, std::string_view to) {
  for (const Link& link : topology.links())
    if (topology.node(link.from).name == from && topology.node(link.to).name == to) return &link;
  return nullptr;
}

/// GB/s of the link of a kind between two nodes; 0: there is none.
double bandwidth(const Topology& topology, std::string_view from, std::string_view to,
                 LinkKind kind) {
  const Link* const link = find_link(topology, from, to);
  return link != nullptr && link->kind == kind ? link->bandwidth : 0;
}

std::string value_of(const std::vector<Attribute>& attributes, std::string_view key) {
  for (const auto& [its, value] : attributes)
    if (its == key) return value;
  return "";
}

std::string host_says(const Topology& topology, std::string_view key) {
  return value_of(topology.hosts()[0].attributes, key);
}

std::string says(const Topology& topology, std::string_view node, std::string_view key) {
  for (const Node& candidate : topology.nodes())
    if (candidate.name == node) return value_of(candidate.attributes, key);
  return "no such node";
}

TEST(Detect, FindsOneCpuAndOneInterfaceInAVirtualMachine) {
  const auto [topology, assumptions] = detected(text_of("vm.txt"));
  EXPECT_EQ(topology.hosts()[0].name, "vm");
  EXPECT_THAT(names(topology, NodeKind::kCpu), ElementsAre("cpu0"));
  EXPECT_THAT(names(topology, NodeKind::kNic), ElementsAre("eth0"));
  EXPECT_EQ(topology.nodes().size(), 3U);  // and the outside of eth0
  EXPECT_EQ(says(topology, "cpu0", "cache_l2"), "2 x 1024 KiB");
  EXPECT_EQ(host_says(topology, "affinity"), "0-1");
  EXPECT_EQ(host_says(topology, "cpuset"), "0-1");
  EXPECT_EQ(host_says(topology, "cpu_limit"), "");
  EXPECT_EQ(host_says(topology, "container"), "docker");
  EXPECT_THAT(assumptions,
              ElementsAre("0000:00:03.0: no speed or width of the PCI link is told: PCIe 3 with 16 "
                          "lanes is assumed",
                          "eth0: no speed of its network is told: 10 Gbit/s is assumed",
                          "no system tells the latency of its links: typical ones are assumed"));
}

TEST(Detect, FindsTheSwitchesGpusAndPortsOfADgxA100) {
  const auto [topology, assumptions] = detected(text_of("dgx_a100.txt"));
  EXPECT_EQ(names(topology, NodeKind::kCpu).size(), 8U);
  EXPECT_EQ(names(topology, NodeKind::kGpu).size(), 8U);
  EXPECT_EQ(names(topology, NodeKind::kPci).size(), 4U);
  EXPECT_THAT(names(topology, NodeKind::kNvswitch), ElementsAre("nvswitch"));
  EXPECT_THAT(names(topology, NodeKind::kNic),
              ElementsAre("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6",
                          "mlx5_7", "mlx5_8"));
  EXPECT_EQ(bandwidth(topology, "gpu0", "nvswitch", LinkKind::kNvlink), 12 * 20);
  EXPECT_EQ(bandwidth(topology, "nvswitch", "gpu7", LinkKind::kNvlink), 12 * 20);
  EXPECT_EQ(bandwidth(topology, "gpu2", "0000:41:00.0", LinkKind::kPci), 24);
  EXPECT_EQ(bandwidth(topology, "gpu3", "0000:41:00.0", LinkKind::kPci), 24);
  EXPECT_EQ(bandwidth(topology, "mlx5_3", "0000:41:00.0", LinkKind::kPci), 24);
  EXPECT_EQ(bandwidth(topology, "0000:41:00.0", "cpu1", LinkKind::kPci), 24);
  EXPECT_EQ(bandwidth(topology, "mlx5_8", "cpu5", LinkKind::kPci), 24);
  EXPECT_EQ(bandwidth(topology, "cpu0", "cpu7", LinkKind::kSystem), 16);
  EXPECT_EQ(bandwidth(topology, "mlx5_3", "mlx5_3.network", LinkKind::kNetwork), 25);
  EXPECT_EQ(says(topology, "gpu7", "sm"), "80");
  EXPECT_EQ(says(topology, "gpu7", "busid"), "0000:bd:00.0");
  EXPECT_EQ(says(topology, "mlx5_3", "netdev"), "ib3");
  EXPECT_EQ(host_says(topology, "product"), "DGXA100 920-23687-2530-000");
}

TEST(Detect, TakesTheFullSpeedOfGpusThatRest) {
  const auto assumptions = detected(text_of("dgx_a100.txt")).assumptions;
  EXPECT_THAT(assumptions, Contains(HasSubstr("runs at 2.5 GT/s PCIe x16, and can do 16.0 GT/s "
                                              "PCIe x16: it is assumed to rest")));
  EXPECT_THAT(assumptions, Contains("mlx5_9: its port is in state `1: DOWN`: it is left out"));
}

TEST(Detect, FindsAPortForEachGpuOfAnHgxH100) {
  const auto [topology, assumptions] = detected(text_of("hgx_h100.txt"));
  EXPECT_EQ(names(topology, NodeKind::kGpu).size(), 8U);
  EXPECT_EQ(names(topology, NodeKind::kPci).size(), 8U);
  EXPECT_EQ(names(topology, NodeKind::kNic).size(), 9U);
  EXPECT_DOUBLE_EQ(bandwidth(topology, "gpu4", "nvswitch", LinkKind::kNvlink), 18 * 20.6);
  EXPECT_EQ(bandwidth(topology, "gpu4", "0000:98:00.0", LinkKind::kPci), 48);
  EXPECT_EQ(bandwidth(topology, "mlx5_4", "0000:98:00.0", LinkKind::kPci), 48);
  EXPECT_EQ(bandwidth(topology, "0000:98:00.0", "cpu1", LinkKind::kPci), 48);
  EXPECT_EQ(bandwidth(topology, "mlx5_4", "mlx5_4.network", LinkKind::kNetwork), 50);
  EXPECT_EQ(bandwidth(topology, "eno1", "cpu0", LinkKind::kPci), 3);
  EXPECT_EQ(bandwidth(topology, "cpu0", "cpu1", LinkKind::kSystem), 22);
}

/// The NICs with the shortest path from each GPU of a machine, and where they are.
std::vector<std::string> nics_of_gpus(const Topology& topology) {
  PathFinder finder(topology);
  std::vector<NodeId> nics;
  for (NodeId id = 0; id < topology.nodes().size(); ++id)
    if (topology.node(id).kind == NodeKind::kNic) nics.push_back(id);
  std::vector<std::string> all;
  for (const std::string& name : names(topology, NodeKind::kGpu)) {
    const auto gpu = gpu_at(topology, 0, says(topology, name, "busid"));
    EXPECT_TRUE(gpu) << name;
    std::string found, place;
    for (const NodeId nic : shortest_to(finder, gpu.value_or(0), nics)) {
      found += topology.node(nic).name + " ";
      place = describe_place(finder.find(*gpu, nic).kind, topology.node(*gpu));
    }
    all.push_back(found + place);
  }
  return all;
}

TEST(Detect, GivesEachGpuOfAnHgxH100ItsOwnPortAlsoWithoutNvml) {
  const std::string text = text_of("hgx_h100.txt");
  const std::size_t nvml = text.find("nvml.json <<END");
  ASSERT_NE(nvml, std::string::npos);
  const std::string files = text.substr(0, nvml) + text.substr(text.find("\nEND\n", nvml) + 5);
  for (const std::string& machine : {text, files}) {
    const auto near = nics_of_gpus(detected(machine).topology);
    ASSERT_EQ(near.size(), 8U);
    for (std::size_t i = 0; i < near.size(); ++i)
      EXPECT_EQ(near[i], fmt::format("mlx5_{} on the PCI switch of gpu{} (PIX)", i, i));
  }
}

TEST(Detect, GivesTwoGpusOfADgxA100TheTwoPortsOfTheirSwitch) {
  const auto near = nics_of_gpus(detected(text_of("dgx_a100.txt")).topology);
  ASSERT_EQ(near.size(), 8U);
  EXPECT_EQ(near[0], "mlx5_0 mlx5_1 on the PCI switch of gpu0 (PIX)");
  EXPECT_EQ(near[1], "mlx5_0 mlx5_1 on the PCI switch of gpu1 (PIX)");
  EXPECT_EQ(near[7], "mlx5_6 mlx5_7 on the PCI switch of gpu7 (PIX)");
}

TEST(Detect, CountsANicThatCameUpSlowAsSlow) {
  const auto [topology, assumptions] = detected(text_of("hgx_h100.txt"));
  EXPECT_EQ(bandwidth(topology, "mlx5_5", "0000:be:00.0", LinkKind::kPci), 12);
  EXPECT_THAT(assumptions,
              Contains("0000:c0:00.0: the PCI link runs at 16.0 GT/s PCIe x8, and can do 32.0 GT/s "
                       "PCIe x16: only what it runs at counts"));
}

TEST(Detect, LetsVirtualFunctionsShareThePortOfTheirPhysicalOne) {
  const Topology topology = detected(text_of("two_sockets.txt")).topology;
  EXPECT_THAT(names(topology, NodeKind::kNic), ElementsAre("mlx5_0", "eno1", "mlx5_1", "mlx5_2"));
  EXPECT_THAT(names(topology, NodeKind::kSwitch), ElementsAre("mlx5_0.network", "eno1.network"));
  for (const char* nic : {"mlx5_0", "mlx5_1", "mlx5_2"}) {
    EXPECT_EQ(bandwidth(topology, nic, "mlx5_0.network", LinkKind::kNetwork), 25.0 / 8) << nic;
    EXPECT_EQ(bandwidth(topology, nic, "cpu1", LinkKind::kPci), 6) << nic;
  }
  EXPECT_EQ(says(topology, "mlx5_2", "physical_function"), "0000:d8:00.0");
}

TEST(Detect, LeavesOutVirtualAndMissingInterfacesOfAContainer) {
  const auto [topology, assumptions] = detected(text_of("two_sockets.txt"));
  EXPECT_EQ(bandwidth(topology, "eno1", "cpu0", LinkKind::kPci), 0.75);
  EXPECT_EQ(bandwidth(topology, "cpu0", "cpu1", LinkKind::kSystem), 10);
  EXPECT_THAT(assumptions, Contains("eno2: its link is `down`: it is left out"));
  EXPECT_THAT(assumptions, Contains(StartsWith("0000:3b:00.0: a NIC of which this process sees no "
                                               "interface")));
}

TEST(Detect, SaysWhatAContainerGrants) {
  const Topology topology = detected(text_of("two_sockets.txt")).topology;
  EXPECT_EQ(host_says(topology, "container"), "kubernetes");
  EXPECT_EQ(host_says(topology, "network_namespace"), "own");
  EXPECT_EQ(host_says(topology, "affinity"), "0-7,40-43");
  EXPECT_EQ(host_says(topology, "cpuset"), "0-7,40-47");
  EXPECT_EQ(host_says(topology, "cpu_limit"), "6.5");  // of the group above its own
}

TEST(Detect, MakesTheBestOfABrokenSysfs) {
  const auto [topology, assumptions] = detected(text_of("broken.txt"));
  EXPECT_EQ(topology.hosts()[0].name, "host");
  EXPECT_THAT(names(topology, NodeKind::kCpu), ElementsAre("cpu0", "cpu1"));
  EXPECT_THAT(names(topology, NodeKind::kGpu), ElementsAre("gpu0"));
  EXPECT_THAT(names(topology, NodeKind::kNic), ElementsAre("mlx4_0", "eth0", "eth2"));
  EXPECT_EQ(bandwidth(topology, "eth0", "cpu0", LinkKind::kPci), 12);
  EXPECT_EQ(bandwidth(topology, "eth0", "eth0.network", LinkKind::kNetwork), 1.25);
  for (const char* sentence :
       {"/proc/sys/kernel/hostname tells no name: the host is called `host`",
        "/proc/self/status tells no CPUs that this process may use: all are assumed",
        "hwloc tells no CPUs (line 2 column ", "the CPUs are of no known kind (vendor `Unheard`",
        "0000:03:00.0: a GPU by its PCI class, of which nothing else is told (nvml.json, GPU 0: ",
        "0000:03:00.0, 0000:02:00.0, 0000:01:00.0: no numa_node of a CPU is told: `cpu0` is "
        "assumed",
        "empty: its ports cannot be read: it is left out",
        "rocep1: its port is in state `banana`: it is left out",
        "eth2: it hangs on no PCI function: ",
        "mlx4_0, eth0, eth2: no speed of its network is told: 10 Gbit/s is assumed"})
    EXPECT_THAT(assumptions, Contains(StartsWith(sentence)));
}

TEST(Detect, FailsOnlyWhereNothingAtAllAnswers) {
  const auto noted = try_detect("tutti machine 1\n/sys/class/net/lo/speed ! no\n");
  ASSERT_TRUE(noted) << "a name was listed";
  const auto nothing = try_detect("tutti machine 1\n");
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, Code::kUnavailable);
  EXPECT_THAT(nothing.error().what, HasSubstr("neither /proc nor /sys"));
}

constexpr const char* kThreeGpus = R"(
/sys/bus/pci/devices/0000:01:00.0/class: 0x030200
/sys/bus/pci/devices/0000:01:00.0/vendor: 0x10de
/sys/bus/pci/devices/0000:01:00.0/numa_node: 1
/sys/bus/pci/devices/0000:02:00.0/class: 0x030200
/sys/bus/pci/devices/0000:02:00.0/vendor: 0x10de
/sys/bus/pci/devices/0000:03:00.0/class: 0x038000
/sys/bus/pci/devices/0000:03:00.0/vendor: 0x1002
)";

TEST(Detect, JoinsGpusByNvlinkAndChipToChip) {
  const auto [topology, assumptions] = detected(small_machine(std::string(kThreeGpus) + R"(
nvml.json <<END
[{"bus_id": "0000:01:00.0", "compute_capability": [9, 0], "c2c_mb_per_s": 450000,
  "nvlinks": [{"to": "gpu", "bus_id": "0000:02:00.0", "links": 6}],
  "fabric": {"cluster": "0a", "clique": 7}},
 {"bus_id": "0000:02:00.0", "compute_capability": [9, 0],
  "nvlinks": [{"to": "unknown", "bus_id": "0000:01:00.0", "links": 6},
              {"to": "gpu", "bus_id": "0000:77:00.0", "links": 1}]}]
END
)",
                                                              2));
  EXPECT_DOUBLE_EQ(bandwidth(topology, "gpu0", "gpu1", LinkKind::kNvlink), 6 * 20.6);
  EXPECT_DOUBLE_EQ(bandwidth(topology, "gpu1", "gpu0", LinkKind::kNvlink), 6 * 20.6);
  EXPECT_EQ(names(topology, NodeKind::kNvswitch).size(), 0U);
  EXPECT_EQ(says(topology, "gpu0", "fabric_cluster"), "0a");
  EXPECT_EQ(says(topology, "gpu0", "fabric_clique"), "7");
  EXPECT_THAT(assumptions,
              Contains("0000:02:00.0: an NVLink to no other GPU of this system: it is left out"));
  // The maker of the third has no NVML.
  EXPECT_EQ(says(topology, "gpu2", "busid"), "0000:03:00.0");
}

TEST(Detect, KeepsAChipToChipLinkBesideThePciLink) {
  const Topology topology =
      detected(small_machine(std::string(kThreeGpus) + "nvml.json: [{\"bus_id\": \"0000:01:00.0\", "
                                                       "\"c2c_mb_per_s\": 450000}]\n",
                             2))
          .topology;
  std::vector<double> to_cpu;
  for (const Link& link : topology.links())
    if (topology.node(link.from).name == "gpu0" && topology.node(link.to).name == "cpu1")
      to_cpu.push_back(link.bandwidth);
  EXPECT_THAT(to_cpu, ElementsAre(12, 450));
}

TEST(Detect, LeavesOutGpusThatNvmlDoesNotShow) {
  const auto [topology, assumptions] = detected(
      small_machine(std::string(kThreeGpus) + "nvml.json: [{\"bus_id\": \"0000:02:00.0\"}]\n"));
  EXPECT_THAT(names(topology, NodeKind::kGpu), ElementsAre("gpu0", "gpu1"));
  EXPECT_EQ(says(topology, "gpu0", "busid"), "0000:02:00.0");
  EXPECT_THAT(assumptions, Contains(StartsWith("0000:01:00.0: a GPU that NVML does not show")));
}

TEST(Detect, KnowsGpusByTheirClassWhereThereIsNoNvml) {
  const auto [topology, assumptions] = detected(small_machine(kThreeGpus, 2));
  EXPECT_EQ(names(topology, NodeKind::kGpu).size(), 3U);
  EXPECT_NE(find_link(topology, "gpu0", "cpu1"), nullptr);
  EXPECT_THAT(assumptions, Contains(HasSubstr("no link beside PCI is assumed")));
}

TEST(Detect, TakesAVirtualInterfaceWhereThereIsNoOther) {
  const auto [topology, assumptions] = detected(small_machine(R"(
/sys/class/net/eth0 -> ../../devices/virtual/net/eth0
/sys/class/net/eth0/operstate: up
/sys/class/net/eth0/speed: 10000
/sys/class/net/br0 -> ../../devices/virtual/net/br0
/sys/class/net/br0/bridge/bridge_id: 8000
/sys/class/net/lo -> ../../devices/virtual/net/lo
)"));
  EXPECT_THAT(names(topology, NodeKind::kNic), ElementsAre("eth0"));
  EXPECT_EQ(bandwidth(topology, "eth0", "eth0.network", LinkKind::kNetwork), 1.25);
  EXPECT_THAT(assumptions, Contains(StartsWith("eth0: a virtual interface")));
}

TEST(Detect, SaysSoWhereThereIsNoNetwork) {
  EXPECT_THAT(detected(small_machine("")).assumptions,
              Contains("no network interface is up: no way out of the host is assumed"));
}

TEST(Detect, AssumesOneCpuWhereNoneIsTold) {
  const auto [topology, assumptions] = detected("tutti machine 1\n/proc/self/cgroup: 0::/\n");
  EXPECT_THAT(names(topology, NodeKind::kCpu), ElementsAre("cpu0"));
  EXPECT_THAT(assumptions, Contains("/sys/devices/system/node tells no CPUs: one is assumed"));
}

TEST(Detect, FindsThisMachineAndRecordsItFaithfully) {
  RealProbe system;
  RecordingProbe recorder(system);
  const auto here = detect(recorder);
  ASSERT_TRUE(here) << here.error().what;
  EXPECT_FALSE(names(here->topology, NodeKind::kCpu).empty());
  const Noted again = detected(recorder.recording().text());
  EXPECT_EQ(again.topology, here->topology);
}

/// One byte changed, one line dropped or doubled.
std::string mutated(std::string text, std::mt19937& random) {
  const std::size_t at = random() % text.size();
  const std::size_t begin = text.rfind('\n', at) + 1;
  const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
  switch (begin == 0 ? 0 : random() % 3) {
    case 0:
      text[std::max<std::size_t>(at, 16)] = static_cast<char>(random() % 256);
      return text;
    case 1:
      return text.erase(begin, end - begin);
    default:
      return text.insert(end, text.substr(begin, end - begin));
  }
}

TEST(Detect, NeverFailsOnARecordingThatIsALittleWrong) {
  const std::uint32_t seed = std::random_device()();
  std::mt19937 random(seed);
  for (const char* machine : {"vm.txt", "two_sockets.txt", "hgx_h100.txt"}) {
    const std::string text = text_of(machine);
    for (int i = 0; i < 200; ++i) {
      const std::string wrong = mutated(text, random);
      const auto noted = try_detect(wrong);
      if (!noted) {
        EXPECT_THAT(noted.error().what, StartsWith("line ")) << machine << ", seed " << seed;
      }
    }
  }
}

TEST(HwlocXml, ReadsWhatTheInstalledHwlocSaysOfThisMachine) {
  RealProbe probe;
  const auto xml = probe.hwloc_xml();
  if (!xml && xml.error().code == Code::kUnsupported) GTEST_SKIP() << xml.error().what;
  ASSERT_TRUE(xml) << xml.error().what;
  const auto noted = read_hwloc_xml(*xml, "");
  ASSERT_TRUE(noted) << noted.error().what;
  EXPECT_FALSE(names(noted->topology, NodeKind::kCpu).empty());
}

}  // namespace
}  // namespace tutti::topo
