#include "src/topo/nccl/xml.hpp"

#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pugixml.hpp>

#include "src/topo/format/xml_text.hpp"

namespace tutti::topo {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<std::string> kMachines = {"dgx1_v100", "dgx_a100", "hgx_h100", "mi300x",
                                            "pcie_two_socket"};

std::string machine(const std::string& name) {
  std::ifstream file(std::string(TUTTI_TEST_DATA "/") + name + ".xml");
  EXPECT_TRUE(file) << name;
  return (std::ostringstream() << file.rdbuf()).str();
}

Noted read(const std::string& text) {
  auto noted = read_nccl_xml(text);
  EXPECT_TRUE(noted) << noted.error().what << "\n" << text;
  return *std::move(noted);
}

std::string written(const Topology& topology) {
  auto text = write_nccl_xml(topology);
  EXPECT_TRUE(text) << text.error().what;
  return *std::move(text);
}

std::string nccl_xml_error(const std::string& text) {
  const auto noted = read_nccl_xml(text);
  if (noted) return "no error";
  EXPECT_EQ(noted.error().code, Code::kInvalidArgument);
  return noted.error().what;
}

/// A system of one CPU with `inside` in it, on line 2 from column 1.
std::string in_cpu(const std::string& inside) {
  return "<system version=\"1\"><cpu numaid=\"0\" arch=\"arm64\">\n" + inside + "</cpu></system>";
}
std::string in_gpu(const std::string& inside) {
  return in_cpu("<pci busid=\"0000:01:00.0\" class=\"0x030200\"><gpu dev=\"0\" sm=\"90\">\n" +
                inside + "</gpu></pci>");
}

void sort_attributes(pugi::xml_node element) {
  std::map<std::string, std::string> attributes;
  for (const pugi::xml_attribute attribute : element.attributes())
    attributes[attribute.name()] = attribute.value();
  element.remove_attributes();
  for (const auto& [name, value] : attributes)
    element.append_attribute(name.c_str()) = value.c_str();
  for (const pugi::xml_node child : element.children()) sort_attributes(child);
}

/// Equal for texts that differ in the order of attributes only.
std::string without_order(const std::string& text) {
  pugi::xml_document document;
  EXPECT_TRUE(document.load_string(text.c_str()));
  sort_attributes(document.first_child());
  return to_lines(document.first_child());
}

void expect_round_trip(const std::string& text) {
  const Topology topology = read(text).topology;
  const std::string again = written(topology);
  EXPECT_EQ(without_order(again), without_order(text));
  EXPECT_EQ(read(again).topology, topology);
}

NodeId find(const Topology& topology, std::string_view name) {
  for (NodeId id = 0; id < topology.nodes().size(); ++id)
    if (topology.node(id).name == name) return id;
  ADD_FAILURE() << "no node " << name;
  return 0;
}

/// GB/s of the link of a kind; 0 where there is none.
double bandwidth(const Topology& topology, std::string_view from, std::string_view to,
                 LinkKind kind) {
  double sum = 0;
  for (const LinkId id : topology.links_from(find(topology, from))) {
    const Link& link = topology.link(id);
    if (link.to == find(topology, to) && link.kind == kind) sum += link.bandwidth;
  }
  return sum;
}

std::map<NodeKind, int> count_kinds(const Topology& topology) {
  std::map<NodeKind, int> counts;
  for (const Node& node : topology.nodes()) ++counts[node.kind];
  return counts;
}

std::string attribute(const Topology& topology, std::string_view node, std::string_view key) {
  for (const Attribute& attribute : topology.node(find(topology, node)).attributes)
    if (attribute.key == key) return attribute.value;
  return "none";
}

TEST(NcclXml, ComesBackFromEveryMachineUpToTheOrderOfAttributes) {
  for (const std::string& name : kMachines) {
    SCOPED_TRACE(name);
    expect_round_trip(machine(name));
  }
}

TEST(NcclXml, FindsTheCubeMeshOfADgx1) {
  const Topology dgx1 = read(machine("dgx1_v100")).topology;
  EXPECT_EQ(
      count_kinds(dgx1),
      (std::map<NodeKind, int>{
          {NodeKind::kGpu, 8}, {NodeKind::kCpu, 2}, {NodeKind::kPci, 4}, {NodeKind::kNic, 4}}));
  EXPECT_EQ(bandwidth(dgx1, "gpu0", "gpu3", LinkKind::kNvlink), 40);
  EXPECT_EQ(bandwidth(dgx1, "gpu3", "gpu0", LinkKind::kNvlink), 40);
  EXPECT_EQ(bandwidth(dgx1, "gpu0", "gpu5", LinkKind::kNvlink), 0);
  for (int gpu = 0; gpu < 8; ++gpu) {
    double sum = 0;
    for (int other = 0; other < 8; ++other)
      sum += bandwidth(dgx1, fmt::format("gpu{}", gpu), fmt::format("gpu{}", other),
                       LinkKind::kNvlink);
    EXPECT_EQ(sum, 6 * 20) << gpu;
  }
  EXPECT_EQ(bandwidth(dgx1, "gpu0", "0000:02:00.0", LinkKind::kPci), 12);
  EXPECT_EQ(bandwidth(dgx1, "cpu0", "cpu1", LinkKind::kSystem), 6);
}

TEST(NcclXml, JoinsEveryPairOfGpusOfAnMi300MachineByXgmi) {
  const Noted noted = read(machine("mi300x"));
  for (int gpu = 0; gpu < 8; ++gpu)
    for (int other = 0; other < 8; ++other)
      if (gpu != other) {
        EXPECT_EQ(bandwidth(noted.topology, fmt::format("gpu{}", gpu), fmt::format("gpu{}", other),
                            LinkKind::kNvlink),
                  48)
            << gpu << " to " << other;
      }
  EXPECT_THAT(noted.assumptions, Not(Contains(HasSubstr("gcn counts as"))));
}

TEST(NcclXml, SaysThatAnXgmiLeadsNowhereOrIsOfAnUnknownGpu) {
  EXPECT_THAT(
      read(in_gpu("<xgmi target=\"0000:77:00.0\" count=\"1\" tclass=\"0x120000\"/>")).assumptions,
      Contains("line 3 column 1: an <xgmi> to no other GPU of its host is kept and not used"));
  const std::string two = in_cpu(
      "<pci busid=\"0000:01:00.0\"><gpu dev=\"0\" sm=\"1\">"
      "<xgmi target=\"0000:02:00.0\" count=\"2\"/></gpu></pci>"
      "<pci busid=\"0000:02:00.0\"><gpu dev=\"1\" sm=\"1\"/></pci>");
  const Noted noted = read(two);
  EXPECT_EQ(bandwidth(noted.topology, "gpu0", "gpu1", LinkKind::kNvlink), 48);
  EXPECT_THAT(noted.assumptions,
              Contains(HasSubstr("a <gpu> with xGMI links and no known gcn counts as gfx906")));
}

TEST(NcclXml, ReadsGuidsAsNcclDoes) {
  for (const char* guid : {"0", "0x0", "123", "0x506b4b0300a10000", ""})
    read(in_cpu(
        fmt::format("<pci busid=\"0000:01:00.0\" class=\"0x020700\"><nic><net name=\"mlx5_0\" "
                    "dev=\"0\" guid=\"{}\"/></nic></pci>",
                    guid)));
  EXPECT_THAT(nccl_xml_error(in_cpu("<pci busid=\"0000:01:00.0\" class=\"0x020700\"><nic><net "
                                    "name=\"mlx5_0\" dev=\"0\" guid=\"x\"/></nic></pci>")),
              HasSubstr("<net> has guid=`x`, expected a number such as 0x506b4b0300a10000"));
}

TEST(NcclXml, TakesAllNvswitchesOfAHostForOne) {
  const Topology a100 = read(machine("dgx_a100")).topology;
  EXPECT_EQ(count_kinds(a100)[NodeKind::kNvswitch], 1);
  EXPECT_EQ(bandwidth(a100, "gpu7", "nvswitch", LinkKind::kNvlink), 240);
  EXPECT_EQ(bandwidth(a100, "nvswitch", "gpu7", LinkKind::kNvlink), 240);
  EXPECT_EQ(a100.node(find(a100, "nvswitch")).host, 0U);
}

TEST(NcclXml, PutsNicsBesideTheGpusOfAnHgxH100) {
  const Topology h100 = read(machine("hgx_h100")).topology;
  EXPECT_EQ(count_kinds(h100)[NodeKind::kNic], 8);
  EXPECT_EQ(bandwidth(h100, "mlx5_0", "0000:15:00.0", LinkKind::kPci), 48);
  EXPECT_EQ(bandwidth(h100, "gpu0", "0000:15:00.0", LinkKind::kPci), 48);
  EXPECT_NEAR(bandwidth(h100, "gpu0", "nvswitch", LinkKind::kNvlink), 370.8, 1e-9);
  EXPECT_EQ(attribute(h100, "mlx5_0", "speed"), "400000");
  EXPECT_EQ(h100.hosts()[0].name, "0x77c1a90be2d45f03");
}

TEST(NcclXml, JoinsASoftwareNicToItsCpu) {
  const Topology box = read(machine("pcie_two_socket")).topology;
  EXPECT_EQ(bandwidth(box, "eth0", "cpu0", LinkKind::kPci), 5000);
  EXPECT_EQ(bandwidth(box, "gpu2", "cpu1", LinkKind::kPci), 12);
  EXPECT_EQ(bandwidth(box, "cpu1", "cpu0", LinkKind::kSystem), 10);
}

TEST(NcclXml, NotesThatLatenciesAreAssumed) {
  const Noted noted = read(machine("dgx_a100"));
  EXPECT_THAT(noted.assumptions,
              ElementsAre("line 1 column 1: latencies are no part of the format: "
                          "without tutti_latency_us they are 0"));
  for (const Link& link : noted.topology.links()) EXPECT_EQ(link.latency, 0);
}

TEST(NcclXml, TakesLatenciesFromItsOwnAttribute) {
  const Noted noted =
      read(in_cpu("<pci busid=\"0000:01:00.0\" link_speed=\"8 GT/s\" link_width=\"16\" "
                  "tutti_latency_us=\"0.7\"><gpu dev=\"0\" sm=\"90\"><c2c bw=\"44712\" count=\"5\" "
                  "tutti_latency_us=\"0.2\"/></gpu></pci>"));
  EXPECT_THAT(noted.assumptions, ElementsAre());
  EXPECT_EQ(noted.topology.link(0).latency, 0.7);
  EXPECT_EQ(noted.topology.link(2).latency, 0.2);
  EXPECT_EQ(bandwidth(noted.topology, "cpu0", "gpu0", LinkKind::kC2c), 44712 * 5 / 1000.0);
}

TEST(NcclXml, KeepsWhatItDoesNotKnowInItsPlace) {
  const std::string text = in_cpu(
      "<mem size=\"1\"/>"
      "<pci busid=\"0000:01:00.0\" colour=\"a &lt; b\" numa.x=\"\">"
      "<xgmi target=\"0\"><deep a=\"&#10;\"/></xgmi>"
      "<gpu dev=\"0\" sm=\"90\" gcn=\"21943\" tutti_latency_us=\"x\"/><led/></pci>"
      "<nic><fan/><net name=\"a\"/><fan rpm=\"2\"/><net name=\"b\"/></nic><mem size=\"2\"/>");
  expect_round_trip(text);
  const Noted noted = read(text);
  EXPECT_EQ(attribute(noted.topology, "gpu0", "pci.colour"), "a < b");
  EXPECT_EQ(attribute(noted.topology, "gpu0", "gcn"), "21943");
  EXPECT_EQ(attribute(noted.topology, "gpu0", "pci/0"),
            "<xgmi target=\"0\"><deep a=\"&#10;\"/></xgmi>");
  EXPECT_EQ(attribute(noted.topology, "a", "nic/2"), "<fan rpm=\"2\"/>");
  EXPECT_THAT(noted.assumptions,
              Contains("line 2 column 1 and 1 more places: <mem> in <cpu> is kept and means "
                       "nothing here"));
}

TEST(NcclXml, KeepsUnknownAttributesAndElementsOfTheSystem) {
  const std::string text =
      "<system version=\"1\" made=\"by hand\"><a/><cpu numaid=\"0\"/><b/></system>";
  expect_round_trip(text);
  EXPECT_THAT(read(text).topology.hosts()[0].attributes,
              ElementsAre(Attribute{"system.made", "by hand"}, Attribute{"system.version", "1"},
                          Attribute{"system/0", "<a/>"}, Attribute{"system/2", "<b/>"}));
}

TEST(NcclXml, TakesBareFunctionsForGpusAndNics) {
  const std::string text = in_cpu(
      "<pci busid=\"ffff:ff:01.0\" class=\"0x060400\" link_speed=\"16 GT/s\" link_width=\"16\">"
      "<pci busid=\"0001:00:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"/>"
      "<pci busid=\"0101:00:00.0\" class=\"0x020700\" link_speed=\"\" link_width=\"0\"/></pci>");
  expect_round_trip(text);
  const Noted noted = read(text);
  EXPECT_EQ(noted.topology.node(find(noted.topology, "0001:00:00.0")).kind, NodeKind::kGpu);
  EXPECT_EQ(noted.topology.node(find(noted.topology, "0101:00:00.0")).kind, NodeKind::kNic);
  EXPECT_EQ(bandwidth(noted.topology, "0101:00:00.0", "ffff:ff:01.0", LinkKind::kPci), 12);
  EXPECT_THAT(noted.assumptions, Contains(HasSubstr("says no link_width counts as 16 lanes wide")));
  EXPECT_THAT(noted.assumptions, Contains(HasSubstr("counts as generation 3")));
}

TEST(NcclXml, SharesThePciLinkOfANicAmongItsPorts) {
  const std::string text = in_cpu(
      "<pci busid=\"0000:01:00.0\" class=\"0x020000\" link_speed=\"16.0 GT/s PCIe\" "
      "link_width=\"16\"><nic><net name=\"p0\" speed=\"200000\"/><net name=\"p1\" "
      "speed=\"200000\"/></nic></pci>");
  expect_round_trip(text);
  const Topology topology = read(text).topology;
  EXPECT_EQ(bandwidth(topology, "p0", "0000:01:00.0", LinkKind::kPci), 24);
  EXPECT_EQ(bandwidth(topology, "p1", "0000:01:00.0", LinkKind::kPci), 24);
  EXPECT_EQ(bandwidth(topology, "0000:01:00.0", "cpu0", LinkKind::kPci), 24);
}

TEST(NcclXml, GivesPartsOfOneGpuTheSameFunction) {
  const std::string text = in_cpu(
      "<pci busid=\"0002:81:00.0\" class=\"0x030200\" link_speed=\"64.0 GT/s PCIe\" "
      "link_width=\"2\"><gpu dev=\"0\" sm=\"107\" mlopart=\"0\"/><gpu dev=\"0\" sm=\"107\" "
      "mlopart=\"1\"/></pci>");
  expect_round_trip(text);
  const Topology topology = read(text).topology;
  EXPECT_EQ(bandwidth(topology, "gpu0", "0002:81:00.0", LinkKind::kPci), 12);
  EXPECT_EQ(bandwidth(topology, "gpu0#2", "0002:81:00.0", LinkKind::kPci), 12);
}

TEST(NcclXml, JoinsTheHostsOfAFileByOneFabric) {
  const auto host = [](const std::string& hash) {
    return fmt::format(
        "<cpu numaid=\"0\" arch=\"arm64\" host_hash=\"{}\"><pci busid=\"0008:01:00.0\" "
        "class=\"0x030200\"><gpu dev=\"0\" sm=\"100\"><nvlink target=\"fffffff:ff:ff.0\" "
        "count=\"18\" tclass=\"0x068000\"/></gpu></pci></cpu>\n",
        hash);
  };
  const std::string text = "<system version=\"1\">" + host("0xa") + host("0xb") + "</system>";
  expect_round_trip(text);
  const Noted noted = read(text);
  EXPECT_EQ(noted.topology.hosts().size(), 2U);
  EXPECT_EQ(count_kinds(noted.topology)[NodeKind::kNvswitch], 1);
  const Node& fabric = noted.topology.node(find(noted.topology, "nvswitch"));
  EXPECT_EQ(fabric.host, kNoHost);
  EXPECT_THAT(noted.assumptions, Contains(HasSubstr("these are one fabric")));
}

TEST(NcclXml, JoinsPartsOfASwitchThatALinkNames) {
  const std::string text = in_cpu(
      "<pci busid=\"0000:01:00.0\" class=\"0x060400\"><pcilink target=\"0000:02:00.0\"/></pci>"
      "<pci busid=\"0000:02:00.0\" class=\"0x060400\"><pcilink target=\"0000:01:00.0\"/>"
      "<pcilink target=\"0000:09:00.0\"/></pci>");
  expect_round_trip(text);
  const Noted noted = read(text);
  EXPECT_EQ(bandwidth(noted.topology, "0000:01:00.0", "0000:02:00.0", LinkKind::kPci), 5000);
  EXPECT_THAT(noted.assumptions, Contains(HasSubstr("to no other <pci> of its host")));
}

TEST(NcclXml, SaysThatAnNvlinkLeadsNowhere) {
  EXPECT_THAT(
      read(in_gpu("<nvlink target=\"0000:77:00.0\" count=\"2\" tclass=\"0x030200\"/>")).assumptions,
      Contains("line 3 column 1: an <nvlink> to no other GPU of its host is kept and not used"));
}

TEST(NcclXml, JoinsAGpuToItsCpuByNvlink) {
  const Topology topology =
      read(in_gpu("<nvlink target=\"0000:04:01.0\" count=\"3\" tclass=\"0x068001\"/>")).topology;
  EXPECT_NEAR(bandwidth(topology, "gpu0", "cpu0", LinkKind::kNvlink), 61.8, 1e-9);
}

TEST(NcclXml, NamesThePlaceOfWhatIsWrong) {
  EXPECT_EQ(nccl_xml_error(in_gpu("<nvlink target=\"0000:77:00.0\" count=\"two\"/>")),
            "line 3 column 1: <nvlink> has count=`two`, expected an integer from 1 to 4096");
  EXPECT_EQ(nccl_xml_error(in_gpu("<nvlink count=\"2\"/>")),
            "line 3 column 1: <nvlink> lacks target");
  EXPECT_EQ(nccl_xml_error(in_gpu("  <c2c/>")), "line 3 column 3: <c2c> lacks bw");
  EXPECT_EQ(nccl_xml_error(in_cpu("<pci class=\"0x060400\"/>")),
            "line 2 column 1: <pci> lacks busid");
  EXPECT_EQ(nccl_xml_error(in_cpu("<pci busid=\"1:2\"/>")),
            "line 2 column 1: <pci> has busid=`1:2`, expected a PCI address such as 0000:07:00.0");
  EXPECT_EQ(nccl_xml_error(in_cpu("<pci busid=\"0000:01:00.0\" tutti_latency_us=\"-1\"/>")),
            "line 2 column 1: <pci> has tutti_latency_us=`-1`, expected a number that is not "
            "negative");
  EXPECT_EQ(nccl_xml_error(in_cpu("<nic><net speed=\"fast\"/></nic>")),
            "line 2 column 6: <net> has speed=`fast`, expected an integer from -1 to 1000000000");
  EXPECT_EQ(nccl_xml_error("<system version=\"7\"/>"),
            "line 1 column 1: <system> has version=`7`, expected an integer from 1 to 2");
  EXPECT_EQ(nccl_xml_error("<system version=\"1\"/>"),
            "line 1 column 1: <system> holds no <cpu>, so it describes no machine");
}

TEST(NcclXml, ExpandsNoEntities) {
  const std::string text =
      "<!DOCTYPE system [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\">\n"
      "<!ENTITY c SYSTEM \"file:///etc/passwd\">]>" +
      in_cpu("<nic><net name=\"&b;\" kind=\"&c;\"/></nic>");
  const Topology topology = read(text).topology;
  EXPECT_EQ(attribute(topology, "&b;", "name"), "&b;");
  EXPECT_EQ(attribute(topology, "&b;", "net.kind"), "&c;");
  EXPECT_EQ(read(written(topology)).topology, topology);
}

std::string nested(int levels) {
  std::string text;
  for (int i = 0; i < levels; ++i) text += "<pci busid=\"0000:01:00.0\">";
  for (int i = 0; i < levels; ++i) text += "</pci>";
  return in_cpu(text);
}

TEST(NcclXml, LimitsDepthAndCounts) {
  expect_round_trip(nested(62));
  EXPECT_THAT(nccl_xml_error(nested(63)),
              HasSubstr("elements lie more than 64 deep in one another"));
  std::string links;
  for (int i = 0; i <= 256; ++i) links += "<c2c bw=\"1\"/>";
  EXPECT_THAT(nccl_xml_error(in_gpu(links)), HasSubstr("<gpu> holds more than 256 <c2c>"));
  std::string cpus;
  for (int i = 0; i < 3000; ++i) cpus += "<cpu numaid=\"0\"/>";
  EXPECT_THAT(nccl_xml_error("<system version=\"1\">" + cpus + "</system>"),
              HasSubstr("8997000 links, most of them between CPUs, are too many"));
}

TEST(NcclXml, WritesATopologyFromElsewhere) {
  Parts parts;
  parts.hosts = {{"a", {}}};
  parts.nodes = {{NodeKind::kGpu, 0, "first", {{"sm", "90"}}},
                 {NodeKind::kGpu, 0, "second", {{"model", "H100"}, {"sm", "90"}}},
                 {NodeKind::kCpu, 0, "socket", {}},
                 {NodeKind::kPci, 0, "switch", {}},
                 {NodeKind::kNic, 0, "mlx5_0", {{"speed", "400000"}}},
                 {NodeKind::kNvswitch, 0, "nvswitch", {}}};
  const auto join = [&](NodeId a, NodeId b, LinkKind kind, double bandwidth) {
    parts.links.push_back({a, b, kind, bandwidth, 0});
    parts.links.push_back({b, a, kind, bandwidth, 0});
  };
  join(0, 3, LinkKind::kPci, 48);
  join(4, 3, LinkKind::kPci, 24);
  join(3, 2, LinkKind::kPci, 48);
  join(1, 2, LinkKind::kPci, 48);
  join(0, 5, LinkKind::kNvlink, 18 * 20.6);
  join(1, 5, LinkKind::kNvlink, 18 * 20.6);
  join(1, 2, LinkKind::kC2c, 450);
  const Topology topology = *Topology::create(parts);
  const Topology again = read(written(topology)).topology;
  EXPECT_EQ(count_kinds(again), count_kinds(topology));
  EXPECT_EQ(again.links().size(), topology.links().size());
  const std::string pci = "1000:03:00.0";
  EXPECT_EQ(bandwidth(again, "gpu0", pci, LinkKind::kPci), 48);
  EXPECT_EQ(bandwidth(again, "mlx5_0", pci, LinkKind::kPci), 24);
  EXPECT_EQ(bandwidth(again, "gpu1", "cpu0", LinkKind::kPci), 48);
  EXPECT_NEAR(bandwidth(again, "nvswitch", "gpu1", LinkKind::kNvlink), 370.8, 1e-9);
  EXPECT_EQ(bandwidth(again, "cpu0", "gpu1", LinkKind::kC2c), 450);
  EXPECT_EQ(attribute(again, "gpu1", "gpu.model"), "H100");
}

TEST(NcclXml, WritesAHostWithoutACpu) {
  Parts parts;
  parts.hosts = {{"a", {}}};
  parts.nodes = {{NodeKind::kGpu, 0, "x", {}}, {NodeKind::kGpu, 0, "y", {}}};
  parts.links = {{0, 1, LinkKind::kNvlink, 40, 0}, {1, 0, LinkKind::kNvlink, 40, 0}};
  const Topology again = read(written(*Topology::create(parts))).topology;
  EXPECT_EQ(count_kinds(again)[NodeKind::kGpu], 2);
  EXPECT_EQ(bandwidth(again, "gpu1", "gpu0", LinkKind::kNvlink), 40);
}

TEST(NcclXml, WritesNoAttributeThatXmlCannotHold) {
  const auto error = [](const std::string& key, const std::string& value) {
    Parts parts;
    parts.hosts = {{"a", {}}};
    parts.nodes = {{NodeKind::kCpu, 0, "c", {{key, value}}}};
    const auto text = write_nccl_xml(*Topology::create(parts));
    return text ? "no error: " + *text : text.error().what;
  };
  EXPECT_EQ(error("two words", ""), "node `a/c`: the attribute `two words` cannot stand in XML");
  EXPECT_EQ(error("z", std::string("\0", 1)), "node `a/c`: the attribute `z` cannot stand in XML");
  EXPECT_THAT(error("elements", "gpu"), HasSubstr("a cpu is not made of the elements `gpu`"));
  EXPECT_THAT(error("cpu/0", "<a"), HasSubstr("this is no XML"));
  EXPECT_THAT(error("key", "\n\"<&>"), HasSubstr("key=\"&#10;&quot;&lt;&amp;&gt;\""));
}

}  // namespace
}  // namespace tutti::topo
