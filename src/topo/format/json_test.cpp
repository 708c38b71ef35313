#include "src/topo/format/json.hpp"

#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/topo/model/builder.hpp"

namespace tutti::topo {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// A topology of two nodes; each argument replaces the member that begins like it.
constexpr std::string_view kText =
    R"({"format": "tutti-topology", "version": 1,
 "hosts": [
  {"name": "a", "attributes": {"k\u00e4y": "line\nline"}}],
 "nodes": [
  {"kind": "gpu", "host": 0, "name": "g"},
  {"kind": "switch", "name": "s", "attributes": {"x": ""}}],
 "links": [
  {"from": 0, "to": 1, "kind": "network", "bandwidth": 12.5, "latency": 0, "duplex": true},
  {"from": 1, "to": 0, "kind": "pci", "bandwidth": 3, "latency": 1e-3}]}
)";

std::string replaced(std::string_view old, std::string_view by) {
  std::string text(kText);
  const std::size_t at = text.find(old);
  EXPECT_NE(at, text.npos) << old;
  return text.replace(at, old.size(), by);
}

std::string json_error(std::string_view text) {
  const auto parsed = parse_topology_json(text);
  return parsed ? "" : parsed.error().what;
}
std::string error_after(std::string_view old, std::string_view by) {
  return json_error(replaced(old, by));
}

void expect_round_trip(const Topology& topology) {
  const std::string text = topology_json(topology);
  const auto again = parse_topology_json(text);
  ASSERT_TRUE(again) << again.error().what << "\n" << text;
  EXPECT_EQ(*again, topology) << text;
  EXPECT_EQ(again->hash(), topology.hash());
}

TEST(TopologyJson, SaysWhatItsTextSays) {
  const auto topology = parse_topology_json(kText);
  ASSERT_TRUE(topology) << topology.error().what;
  const Parts expected = {
      {{"a", {{"k\u00e4y", "line\nline"}}}},
      {{NodeKind::kGpu, 0, "g", {}}, {NodeKind::kSwitch, kNoHost, "s", {{"x", ""}}}},
      {{0, 1, LinkKind::kNetwork, 12.5, 0},
       {1, 0, LinkKind::kNetwork, 12.5, 0},
       {1, 0, LinkKind::kPci, 3, 0.001}}};
  EXPECT_EQ(topology->parts(), expected);
}

TEST(TopologyJson, IsWrittenOnePartToALine) {
  const std::string text = topology_json(*parse_topology_json(kText));
  EXPECT_EQ(text, R"({"format": "tutti-topology", "version": 1,
 "hosts": [
  {"name": "a", "attributes": {"kä)"
                  R"(y": "line\nline"}}],
 "nodes": [
  {"kind": "gpu", "host": 0, "name": "g"},
  {"kind": "switch", "name": "s", "attributes": {"x": ""}}],
 "links": [
  {"from": 0, "to": 1, "kind": "network", "bandwidth": 12.5, "latency": 0, "duplex": true},
  {"from": 1, "to": 0, "kind": "pci", "bandwidth": 3, "latency": 0.001}]}
)");
}

TEST(TopologyJson, OfAnEmptyTopologyComesBackAsOne) { expect_round_trip(*Topology::create({})); }

TEST(TopologyJson, KeepsOddNumbersAndNames) {
  Parts parts;
  parts.hosts = {{"\"\\/\u20ac", {{" ", std::string("\0\x01\x7f", 3)}}}};
  parts.nodes = {{NodeKind::kGpu, 0, "{}", {}}, {NodeKind::kNvswitch, kNoHost, "[1]", {}}};
  for (const double number : {1e-6, 1e9, 0.1, 1.0 / 3, 123456789.0123, 3e-5})
    parts.links.push_back({0, 1, LinkKind::kNvlink, number, number});
  expect_round_trip(*Topology::create(parts));
}

TEST(TopologyJson, KeepsTheOrderOfLinksThatLookLikePairs) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  for (int trial = 0; trial < 200; ++trial) {
    Parts parts;
    parts.nodes = {{NodeKind::kSwitch, kNoHost, "a", {}}, {NodeKind::kSwitch, kNoHost, "b", {}}};
    for (std::size_t i = random() % 8; i > 0; --i) {
      const NodeId from = random() % 2;
      const double bandwidth = random() % 4 == 0 ? 2 : 1;
      parts.links.push_back({from, 1 - from, LinkKind::kNetwork, bandwidth, 0});
    }
    expect_round_trip(*Topology::create(parts));
  }
}

TEST(TopologyJson, NamesLineAndColumnWhereItIsNoJson) {
  EXPECT_THAT(error_after("\"nodes\"", "nodes"), StartsWith("line 4 column 3: syntax error"));
  EXPECT_THAT(json_error(""), StartsWith("line 1 column 1: syntax error"));
  EXPECT_THAT(json_error(kText.substr(0, 50)), StartsWith("line 2 column 8: syntax error"));
  EXPECT_THAT(json_error(std::string(kText) + "x"), StartsWith("line 10 column 1: syntax error"));
  EXPECT_THAT(error_after("\"g\"", "\"\xFF\""),
              AllOf(StartsWith("line 5 column 39: "), HasSubstr("\\xff")));
  EXPECT_THAT(error_after("12.5", "NaN"), StartsWith("line 8 column 56: "));
}

TEST(TopologyJson, CutsWhatItSaysOfALongText) {
  EXPECT_LT(json_error("{\"" + std::string(100000, 'x') + "\n").size(), 250U);
  EXPECT_LT(json_error("{\"" + std::string(100000, 'x') + "\": 1}").size(), 250U);
}

TEST(TopologyJson, OfAnotherKindOrVersionIsRefused) {
  EXPECT_EQ(error_after("tutti-topology", "x"),
            "format: must be \"tutti-topology\", or this is another kind of file");
  EXPECT_EQ(error_after("1,", "2,"), "version: is 2, but this program reads 1 only");
  EXPECT_EQ(error_after(", \"version\": 1", ""), "version: is missing; this program reads 1");
  EXPECT_EQ(json_error("{}"),
            "format: must be \"tutti-topology\", or this is another kind of file");
  EXPECT_EQ(json_error("{\"type\": 1}"), "the key `type` is unknown: is this a topology?");
  for (const char* text : {"[]", "3", "null", "\"x\""})
    EXPECT_EQ(json_error(text), "the text must be an object") << text;
  EXPECT_EQ(json_error(R"({"format": "tutti-topology", "version": 1, "hosts": [], "nodes": []})"),
            "links: is missing");
}

TEST(TopologyJson, NamesTheMemberThatIsWrong) {
  EXPECT_EQ(error_after("\"latency\": 1e-3", "\"delay\": 1"),
            "links[1]: the key `delay` is unknown");
  EXPECT_EQ(error_after(", \"latency\": 1e-3", ""), "links[1]: latency is missing");
  EXPECT_EQ(error_after("1e-3", "1, \"latency\": 1"), "links[1]: the key `latency` is there twice");
  EXPECT_EQ(error_after("1e-3", "-1"), "links[1].latency: -1 must be from 0 to 1e+09");
  for (const char* bandwidth : {"0", "5e-324", "1e+308"})
    EXPECT_EQ(error_after("12.5", bandwidth),
              fmt::format("links[0].bandwidth: {} must be from 1e-06 to 1e+09", bandwidth));
  EXPECT_EQ(error_after("12.5", "\"12\""), "links[0].bandwidth: must be a number");
  EXPECT_THAT(error_after("12.5", "1e999"), StartsWith("links[0]: number overflow"));
  EXPECT_EQ(error_after("true", "1"), "links[0].duplex: must be true or false");
  EXPECT_EQ(error_after("\"pci\"", "\"usb\""),
            "links[1].kind: `usb` is none of nvlink, c2c, pci, system, network");
  EXPECT_EQ(error_after("\"gpu\"", "3"), "nodes[0].kind: must be a string");
  for (const char* index : {"-1", "1.5", "\"a\"", "4294967295", "99999999999999999999"})
    EXPECT_EQ(error_after("\"host\": 0", fmt::format("\"host\": {}", index)),
              "nodes[0].host: must be the number of an entry of another list, counted from 0");
  EXPECT_EQ(error_after("\"x\": \"\"", "\"x\": 1"),
            "nodes[1].attributes: the value of `x` must be a string");
  EXPECT_EQ(error_after("{\"x\": \"\"}", "3"), "nodes[1].attributes: must be an object");
}

TEST(TopologyJson, RefusesWhatHasNoPlaceInIt) {
  EXPECT_EQ(error_after("{\"kind\": \"gpu\", \"host\": 0, \"name\": \"g\"}", "7"),
            "nodes[0]: must be an object");
  EXPECT_EQ(error_after("\"g\"", "[]"), "nodes[0]: must not be a list");
  EXPECT_EQ(error_after("\"g\"", "{}"), "nodes[0].name: must not be an object");
  EXPECT_EQ(error_after("\"\"", "{}"), "nodes[1].attributes: must not be an object");
  EXPECT_EQ(error_after("\"tutti-topology\"", "{}"), "format: must not be an object");
  EXPECT_EQ(error_after("\"tutti-topology\"", "[]"), "format: must not be a list");
  EXPECT_EQ(json_error(R"({"hosts": 3})"), "hosts: must be a list");
  EXPECT_EQ(json_error(R"({"hosts": {}})"), "hosts: must not be an object");
  EXPECT_EQ(json_error(R"({"hosts": [[]]})"), "hosts[0]: must not be a list");
}

TEST(TopologyJson, LeavesTheRestToTheTopologysOwnChecks) {
  EXPECT_EQ(error_after("\"to\": 1", "\"to\": 9"),
            "link 0: it ends at node 9, but there are 2 nodes");
}

TEST(TopologyJson, HasLimits) {
  EXPECT_EQ(json_error(std::string(kMostJsonBytes + 1, ' ')),
            "268435457 bytes of JSON are too many: at most 268435456 are read");
  EXPECT_EQ(json_error(std::string(1 << 20, '[')), "the text must be an object");
  std::string nested = "{\"format\": ";
  for (int i = 0; i < 1 << 16; ++i) nested += "{\"format\": ";
  EXPECT_EQ(json_error(nested), "format: must not be an object");
  std::string attributes;
  for (int i = 0; i <= 1024; ++i) attributes += fmt::format("{}\"{}\": \"\"", i > 0 ? "," : "", i);
  EXPECT_EQ(error_after("\"x\": \"\"", attributes),
            "nodes[1]: more than 1024 attributes are not accepted");
}

}  // namespace
}  // namespace tutti::topo
