#include "src/topo/nccl/graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/topo/nccl/xml.hpp"

namespace tutti::topo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// As NCCL writes it: a ring and a tree of two channels over four GPUs, and none for NVLS.
constexpr std::string_view kFile = R"(<graphs version="1">
  <graph id="0" pattern="4" crossnic="0" nchannels="2" speedintra="12.5" speedinter="12"
         latencyinter="0" typeintra="SYS" typeinter="PIX" samechannels="0">
    <channel>
      <net dev="0"/>
      <gpu dev="0"/>
      <gpu dev="1"/>
      <gpu dev="3"/>
      <gpu dev="2"/>
      <net dev="1"/>
    </channel>
    <channel>
      <net dev="1"/>
      <gpu dev="2"/>
      <gpu dev="3"/>
      <gpu dev="1"/>
      <gpu dev="0"/>
      <net dev="0"/>
    </channel>
  </graph>
  <graph id="1" pattern="1" crossnic="0" nchannels="1" speedintra="6" speedinter="6"
         typeintra="SYS" typeinter="PIX" samechannels="1">
    <channel>
      <gpu rank="1"/>
      <gpu rank="0"/>
    </channel>
  </graph>
  <graph id="3" pattern="5" nchannels="0" speedintra="0" speedinter="0" typeintra="LOC"
         typeinter="LOC" samechannels="0"/>
</graphs>
)";

std::vector<Graph> read(std::string_view text) {
  auto graphs = read_nccl_graph(text);
  EXPECT_TRUE(graphs) << graphs.error().what;
  return *std::move(graphs);
}

std::string nccl_graph_error(const std::string& text) {
  const auto graphs = read_nccl_graph(text);
  return graphs ? "no error" : graphs.error().what;
}

/// A graph with these attributes and children, on line 2.
std::string in_graph(const std::string& attributes, const std::string& inside) {
  return "<graphs version=\"1\">\n<graph " + attributes + ">" + inside + "</graph></graphs>";
}
std::string in_channel(const std::string& inside) {
  return in_graph("id=\"0\" pattern=\"4\" nchannels=\"1\"", "\n<channel>" + inside + "</channel>");
}

std::vector<std::int64_t> numbers(const std::vector<GraphStop>& channel) {
  std::vector<std::int64_t> all;
  for (const GraphStop& stop : channel) all.push_back(stop.number);
  return all;
}

Topology four_gpus_and_two_nics() {
  std::string inside;
  for (const char* n : {"0", "1", "2", "3"})
    inside += std::string("<pci busid=\"0000:0") + n + ":00.0\"><gpu dev=\"" + n + "\" rank=\"" +
              n + "\"/></pci>";
  inside += "<nic><net dev=\"0\"/><net dev=\"1\"/></nic>";
  return read_nccl_xml("<system version=\"1\"><cpu numaid=\"0\">" + inside + "</cpu></system>")
      .operator*()
      .topology;
}

TEST(NcclGraph, ReadsChannelsInTheirOrder) {
  const std::vector<Graph> graphs = read(kFile);
  ASSERT_EQ(graphs.size(), 3U);
  EXPECT_EQ(graphs[0].pattern, GraphPattern::kRing);
  ASSERT_EQ(graphs[0].channels.size(), 2U);
  EXPECT_THAT(numbers(graphs[0].channels[0]), ElementsAre(0, 0, 1, 3, 2, 1));
  EXPECT_EQ(graphs[0].channels[0].front().kind, GraphStop::Kind::kNet);
  EXPECT_EQ(graphs[0].channels[0][1].kind, GraphStop::Kind::kGpuByDev);
  EXPECT_EQ(graphs[1].channels[0][0].kind, GraphStop::Kind::kGpuByRank);
  EXPECT_EQ(graphs[2].pattern, GraphPattern::kNvls);
  EXPECT_TRUE(graphs[2].channels.empty());
}

TEST(NcclGraph, KeepsNumbersInTheirWords) {
  const std::vector<Graph> graphs = read(kFile);
  EXPECT_THAT(graphs[0].attributes,
              ElementsAre(Attribute{"crossnic", "0"}, Attribute{"latencyinter", "0"},
                          Attribute{"samechannels", "0"}, Attribute{"speedinter", "12"},
                          Attribute{"speedintra", "12.5"}, Attribute{"typeinter", "PIX"},
                          Attribute{"typeintra", "SYS"}));
}

TEST(NcclGraph, ComesBackFromItsText) {
  const std::vector<Graph> graphs = read(kFile);
  const std::string text = write_nccl_graph(graphs);
  EXPECT_EQ(read(text), graphs);
  EXPECT_EQ(write_nccl_graph(read(text)), text);
  EXPECT_THAT(text, HasSubstr("\n    <channel>\n      <net dev=\"0\"/>\n      <gpu dev=\"0\"/>\n"));
}

TEST(NcclGraph, KeepsAttributesThatItDoesNotKnow) {
  const auto graphs = read(in_channel("<gpu dev=\"0\" colour=\"red\"/>"));
  EXPECT_THAT(graphs[0].channels[0][0].others, ElementsAre(Attribute{"colour", "red"}));
  EXPECT_EQ(read(write_nccl_graph(graphs)), graphs);
}

TEST(NcclGraph, ReadsNicsThatCarryAHostInHexadecimal) {
  const auto graphs = read(in_channel("<net dev=\"0x100000000000002\"/><gpu dev=\"0\"/>"));
  EXPECT_EQ(graphs[0].channels[0][0].number, (std::int64_t{1} << 56) + 2);
  EXPECT_THAT(write_nccl_graph(graphs), HasSubstr("<net dev=\"0x100000000000002\"/>"));
  EXPECT_THAT(nccl_graph_error(in_channel("<net dev=\"0x\"/><gpu dev=\"0\"/>")),
              HasSubstr("line 3 column 10: <net> has dev=`0x`"));
}

TEST(NcclGraph, NamesThePlaceOfWhatIsWrong) {
  EXPECT_EQ(nccl_graph_error("<graphs/>"), "line 1 column 1: <graphs> lacks version");
  EXPECT_EQ(nccl_graph_error(in_graph("id=\"0\" pattern=\"7\" nchannels=\"0\"", "")),
            "line 2 column 1: <graph> has pattern=`7`, expected an integer from 1 to 6");
  EXPECT_EQ(nccl_graph_error(in_graph("id=\"0\" pattern=\"4\" nchannels=\"2\"", "")),
            "line 2 column 1: <graph> has nchannels=2 and holds 0 channels");
  EXPECT_EQ(
      nccl_graph_error(in_graph("id=\"0\" pattern=\"4\" nchannels=\"0\" typeintra=\"FAR\"", "")),
      "line 2 column 1: <graph> has typeintra=`FAR`, expected a kind of path such as NVL, "
      "PIX or SYS");
  EXPECT_EQ(nccl_graph_error(in_graph("id=\"0\" pattern=\"4\" nchannels=\"0\"", "\n <gpu/>")),
            "line 3 column 2: <gpu> cannot stand in <graph>");
  EXPECT_EQ(nccl_graph_error(in_channel("<net dev=\"0\"/>")),
            "line 3 column 1: <channel> holds no <gpu>");
  EXPECT_EQ(nccl_graph_error(in_channel("<gpu/>")),
            "line 3 column 10: <gpu> lacks dev, and rank in its place");
  EXPECT_EQ(nccl_graph_error(in_channel("<gpu dev=\"-1\"/>")),
            "line 3 column 10: <gpu> has dev=`-1`, expected an integer from 0 to 2147483647");
  EXPECT_THAT(nccl_graph_error(in_channel("<gpu dev=\"0\"/><net dev=\"0\"/><gpu dev=\"1\"/>")),
              HasSubstr("line 3 column 24: <net> stands between GPUs"));
}

TEST(NcclGraph, AgreesWithATopologyThatHasItsGpusAndNics) {
  const Status agreed = check(read(kFile), four_gpus_and_two_nics());
  EXPECT_TRUE(agreed) << agreed.error().what;
}

TEST(NcclGraph, NamesTheStopThatATopologyDoesNotHave) {
  const auto error = [](const std::string& inside) {
    const Status checked = check(read(in_channel(inside)), four_gpus_and_two_nics());
    return checked ? "no error" : checked.error().what;
  };
  EXPECT_EQ(error("<gpu dev=\"4\"/>"), "graph 0 channel 0: gpu of dev 4 is not in the topology");
  EXPECT_EQ(error("<gpu rank=\"9\"/>"), "graph 0 channel 0: gpu of rank 9 is not in the topology");
  EXPECT_EQ(error("<net dev=\"2\"/><gpu dev=\"0\"/>"),
            "graph 0 channel 0: net of dev 2 is not in the topology");
  EXPECT_EQ(error("<gpu dev=\"1\"/><gpu dev=\"1\"/>"),
            "graph 0 channel 0: gpu of dev 1 stands in it twice");
}

}  // namespace
}  // namespace tutti::topo
