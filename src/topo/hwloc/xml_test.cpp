#include "src/topo/hwloc/xml.hpp"

#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::topo {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::string file(const std::string& name) {
  std::ifstream stream(std::string(TUTTI_TEST_DATA) + "/" + name);
  EXPECT_TRUE(stream) << name;
  return {std::istreambuf_iterator<char>(stream), {}};
}

Noted read(const std::string& text, std::string_view host = "") {
  auto noted = read_hwloc_xml(text, host);
  EXPECT_TRUE(noted) << noted.error().what;
  return noted ? *std::move(noted) : Noted{*Topology::create({}), {}};
}

std::string hwloc_xml_error(const std::string& text) {
  const auto noted = read_hwloc_xml(text, "");
  return noted ? "no error" : noted.error().what;
}

std::vector<std::string> names(const Topology& topology, NodeKind kind) {
  std::vector<std::string> found;
  for (const Node& node : topology.nodes())
    if (node.kind == kind) found.push_back(node.name);
  return found;
}

/// GB/s of the link between two nodes; 0: there is none.
double bandwidth(const Topology& topology, std::string_view from, std::string_view to) {
  for (const Link& link : topology.links())
    if (topology.node(link.from).name == from && topology.node(link.to).name == to)
      return link.bandwidth;
  return 0;
}

std::string attribute(const Topology& topology, std::string_view node, std::string_view key) {
  for (const Node& candidate : topology.nodes())
    if (candidate.name == node)
      for (const auto& [its, value] : candidate.attributes)
        if (its == key) return value;
  return "";
}

TEST(HwlocXml, ReadsPackagesNumaNodesAndCaches) {
  const auto [topology, assumptions] = read(file("lstopo_2_packages.xml"));
  EXPECT_THAT(names(topology, NodeKind::kCpu), ElementsAre("cpu0", "cpu1", "cpu2", "cpu3"));
  EXPECT_EQ(attribute(topology, "cpu3", "package"), "1");
  EXPECT_EQ(attribute(topology, "cpu3", "affinity"), "0000fff0,00000000");
  EXPECT_EQ(attribute(topology, "cpu1", "cache_l3"), "1 x 16384 KiB");
  EXPECT_EQ(attribute(topology, "cpu1", "cache_l2"), "2 x 4096 KiB");
  EXPECT_GT(bandwidth(topology, "cpu0", "cpu3"), 0);
  EXPECT_EQ(topology.links().size(), 4U * 3U);
}

TEST(HwlocXml, ReadsPciSwitchesGpusAndNics) {
  const auto [topology, assumptions] = read(file("lstopo_gpus.xml"));
  EXPECT_EQ(topology.hosts()[0].name, "gpubox");
  EXPECT_THAT(names(topology, NodeKind::kGpu), ElementsAre("gpu0", "gpu1"));
  EXPECT_THAT(names(topology, NodeKind::kNic), ElementsAre("eno1", "mlx5_0"));
  EXPECT_THAT(names(topology, NodeKind::kPci), ElementsAre("0000:81:00.0"));
  // 31.5 GB/s is the raw rate of PCIe 4 x16, of which 24 GB/s can be used.
  EXPECT_NEAR(bandwidth(topology, "gpu1", "0000:81:00.0"), 24, 0.01);
  EXPECT_NEAR(bandwidth(topology, "0000:81:00.0", "cpu1"), 24, 0.01);
  EXPECT_NEAR(bandwidth(topology, "mlx5_0", "0000:81:00.0"), 24, 0.01);
  EXPECT_EQ(bandwidth(topology, "gpu0", "cpu0"), 12);  // of unknown speed
  EXPECT_EQ(attribute(topology, "gpu1", "busid"), "0000:84:00.0");
  EXPECT_EQ(attribute(topology, "gpu1", "model"), "NVIDIA A100");
  EXPECT_EQ(attribute(topology, "mlx5_0", "netdev"), "ib0");
  EXPECT_THAT(assumptions, Contains("0000:04:00.0: no speed or width of the PCI link is told: "
                                    "PCIe 3 with 16 lanes is assumed"));
  EXPECT_THAT(assumptions, Contains(HasSubstr("no NVLink is assumed")));
}

TEST(HwlocXml, ReadsTheSameInTheWordsOfVersion3) {
  const Noted before = read(file("lstopo_gpus.xml"));
  const Noted after = read(file("lstopo3_gpus.xml"));
  EXPECT_EQ(after.topology, before.topology);
  EXPECT_EQ(after.assumptions, before.assumptions);
}

TEST(HwlocXml, TakesTheHostNameThatTheCallerGives) {
  EXPECT_EQ(read(file("lstopo_gpus.xml"), "other").topology.hosts()[0].name, "other");
}

TEST(HwlocXml, NamesLineAndColumnOfWhatIsWrong) {
  const std::string head = "<topology version=\"2.0\">\n <object type=\"Machine\">\n";
  const std::string tail = " </object>\n</topology>\n";
  const std::string numa = "  <object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x1\"/>\n";
  EXPECT_THAT(hwloc_xml_error(""), HasSubstr("line 1 column 1"));
  EXPECT_THAT(hwloc_xml_error("<topology/>"), HasSubstr("hwloc 2 or 3"));
  EXPECT_THAT(hwloc_xml_error("<topology version=\"4.0\"/>"), HasSubstr("version `4.0`"));
  EXPECT_THAT(hwloc_xml_error("<topology version=\"2.0\"/>"), HasSubstr("Machine"));
  EXPECT_THAT(hwloc_xml_error(head + tail), HasSubstr("no NUMANode has a CPU"));
  EXPECT_THAT(hwloc_xml_error(head + numa + numa + tail),
              HasSubstr("line 4 column 3: there are two NUMA nodes 0"));
  EXPECT_THAT(hwloc_xml_error(head + "  <object type=\"NUMANode\" cpuset=\"0x1\"/>\n" + tail),
              HasSubstr("line 3 column 3: <object> lacks os_index"));
  EXPECT_THAT(hwloc_xml_error(head + "  <object type=\"NUMANode\" cpuset=\"zebra\"/>\n" + tail),
              HasSubstr("line 3 column 3: <object> has cpuset=`zebra`"));
  EXPECT_THAT(hwloc_xml_error(head + numa + "  <object type=\"PCIDev\" pci_busid=\"7\"/>\n" + tail),
              HasSubstr("line 4 column 3: <object> has pci_busid=`7`"));
  EXPECT_THAT(hwloc_xml_error(
                  head + numa +
                  "  <object type=\"PCIDev\" pci_busid=\"0000:07:00.0\" pci_type=\"x\"/>\n" + tail),
              HasSubstr("pci_type=`x`"));
}

TEST(HwlocXml, RefusesElementsThatLieTooDeep) {
  std::string text = "<topology version=\"2.0\"><object type=\"Machine\">";
  for (int i = 0; i < 100'000; ++i) text += "<object type=\"Group\">";
  EXPECT_FALSE(read_hwloc_xml(text, ""));
  for (int i = 0; i < 100'000; ++i) text += "</object>";
  EXPECT_THAT(hwloc_xml_error(text + "</object></topology>"), HasSubstr("deep"));
}

}  // namespace
}  // namespace tutti::topo
