#include "tools/machines/preset.hpp"

#include <cstdio>
#include <fstream>
#include <ostream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/result.hpp"
#include "src/topo/model/aggregation.hpp"
#include "src/topo/model/fabric_graph.hpp"
#include "src/topo/model/paths.hpp"

namespace tutti::topo {
namespace {

using ::testing::HasSubstr;

Topology host(std::string_view name) {
  const auto preset = builtin_preset(name);
  EXPECT_TRUE(preset) << preset.error().what;
  return *preset->host();
}

/// The path between two nodes of a host, by full names.
Path path(const Topology& topology, std::string_view from, std::string_view to) {
  NodeId a = 0, b = 0;
  for (NodeId id = 0; id < topology.nodes().size(); ++id) {
    if (full_name(topology, id) == from) a = id;
    if (full_name(topology, id) == to) b = id;
  }
  return PathFinder(topology).find(a, b);
}

TEST(Presets, AllLoadUnderTheNamesOfTheirFiles) {
  const auto names = preset_names();
  EXPECT_GT(names.size(), std::size_t{kFabricKinds});
  for (const std::string& name : names) {
    const auto preset = builtin_preset(name);
    ASSERT_TRUE(preset) << name << ": " << preset.error().what;
    EXPECT_EQ(preset->name, name);
    EXPECT_FALSE(preset->title.empty());
  }
}

TEST(Presets, HaveNvswitchesThatAddFromHopperOn) {
  const auto rate = [](std::string_view name) {
    const Topology topology = host(name);
    for (NodeId id = 0; id < topology.nodes().size(); ++id)
      if (const auto aggregation = aggregation_of(topology, id); aggregation && *aggregation)
        return (*aggregation)->rate;
    return 0.0;
  };
  EXPECT_EQ(rate("dgx-2"), 0);
  EXPECT_EQ(rate("dgx-a100"), 0);
  EXPECT_EQ(rate("dgx-h100"), 0.85 * 450);
  EXPECT_EQ(rate("dgx-h200"), 0.85 * 450);
  EXPECT_EQ(rate("dgx-b200"), 0.74 * 900);
  EXPECT_EQ(rate("gb200-nvl72"), 0.74 * 900);
}

TEST(Presets, HaveAFabricForEachKindUnderTheNameOfTheKind) {
  for (int i = 0; i < kFabricKinds; ++i) {
    const auto kind = static_cast<FabricKind>(i);
    const auto preset = builtin_preset(name_of(kind));
    ASSERT_TRUE(preset) << preset.error().what;
    ASSERT_NE(preset->fabric(), nullptr);
    EXPECT_EQ(preset->fabric()->kind, kind);
  }
}

struct HostFacts {
  std::string name;
  std::size_t gpus, nics;
  std::string a, b;  // two GPUs, or CPUs
  PathKind kind;
  double bandwidth;
};

void PrintTo(const HostFacts& facts, std::ostream* out) {
  *out << facts.name << " from " << facts.a << " to " << facts.b;
}

class HostPresets : public ::testing::TestWithParam<HostFacts> {};

TEST_P(HostPresets, HaveThePartsAndPathsOfTheMachine) {
  const HostFacts& facts = GetParam();
  const Topology topology = host(facts.name);
  EXPECT_EQ(nodes_of_kind(topology, NodeKind::kGpu).size(), facts.gpus);
  EXPECT_EQ(nodes_of_kind(topology, NodeKind::kNic).size(), facts.nics);
  const Path found = path(topology, facts.a, facts.b);
  EXPECT_EQ(found.kind, facts.kind) << name_of(found.kind);
  EXPECT_EQ(found.bandwidth, facts.bandwidth);
}

using enum PathKind;
INSTANTIATE_TEST_SUITE_P(
    All, HostPresets,
    ::testing::Values(HostFacts{"dgx-1", 8, 4, "host/gpu0", "host/gpu1", kNvlink, 50},
                      HostFacts{"dgx-1", 8, 4, "host/gpu0", "host/gpu5", kNvlinkRelay, 50},
                      HostFacts{"ndv2", 8, 1, "host/gpu2", "host/gpu6", kNvlink, 50},
                      HostFacts{"dgx-2", 16, 8, "host/gpu0", "host/gpu15", kNvlink, 150},
                      HostFacts{"dgx-a100", 8, 8, "host/gpu0", "host/gpu7", kNvlink, 300},
                      HostFacts{"dgx-h100", 8, 8, "host/gpu0", "host/gpu7", kNvlink, 450},
                      HostFacts{"dgx-h200", 8, 8, "host/gpu1", "host/gpu2", kNvlink, 450},
                      HostFacts{"dgx-b200", 8, 8, "host/gpu0", "host/gpu7", kNvlink, 900},
                      HostFacts{"gb200-nvl72", 72, 72, "tray0/gpu0", "tray17/gpu3", kNvlink, 900},
                      HostFacts{"gb200-nvl72", 72, 72, "tray0/gpu0", "tray0/nic1", kPciC2c, 63},
                      HostFacts{"mi250", 16, 8, "host/gpu0", "host/gpu1", kNvlink, 200},
                      HostFacts{"mi250", 16, 8, "host/gpu0", "host/gpu8", kNvlink, 50},
                      HostFacts{"mi300x", 8, 8, "host/gpu0", "host/gpu7", kNvlink, 64},
                      HostFacts{"pcie-8", 8, 2, "host/gpu0", "host/gpu1", kPci, 31.5},
                      HostFacts{"pcie-8", 8, 2, "host/gpu0", "host/gpu2", kHostBridge, 31.5},
                      HostFacts{"pcie-8", 8, 2, "host/gpu0", "host/gpu7", kSystem, 16},
                      HostFacts{"cpu-2s", 0, 1, "host/cpu0", "host/cpu1", kSystem, 22},
                      HostFacts{"tpu-v2", 4, 0, "host/tpu0", "host/tpu3", kHostBridge, 15.75},
                      HostFacts{"tpu-v3", 4, 0, "host/tpu0", "host/tpu3", kHostBridge, 15.75},
                      HostFacts{"tpu-v4", 4, 0, "host/tpu0", "host/tpu3", kHostBridge, 15.75}));

TEST(Presets, GiveEachGpuOfAnH100HostANicBehindItsOwnPciSwitch) {
  const Topology h100 = host("dgx-h100");
  for (int i = 0; i < 8; ++i) {
    const Path found = path(h100, fmt::format("host/gpu{}", i), fmt::format("host/nic{}", i));
    EXPECT_EQ(found.kind, kPci);
    EXPECT_EQ(found.bandwidth, 63);
  }
}

/// A host of a CPU and a NIC, with `sources` and `more` in front of the list of hosts.
std::string text(std::string_view sources, std::string_view nic = R"({"speed": "100000"})") {
  return fmt::format(
      R"({{"format": "tutti-preset", "version": 1, "name": "a", "title": "b", "sources": [{}],
"host": {{"format": "tutti-topology", "version": 1, "hosts": [{{"name": "x"}}], "nodes": [
{{"kind": "cpu", "host": 0, "name": "cpu0"}},
{{"kind": "nic", "host": 0, "name": "nic0", "attributes": {}}}], "links": [
{{"from": 0, "to": 1, "kind": "pci", "bandwidth": 16, "latency": 0.25, "duplex": true}}]}}}})",
      sources, nic);
}
constexpr std::string_view kSources =
    R"({"of": "pci", "bandwidth": 16, "source": "s"}, {"of": "pci", "latency": 0.25,
"assumption": "t"}, {"of": "nic", "bandwidth": 12.5, "source": "u"})";

std::string preset_refusal(std::string_view preset) {
  const auto parsed = parse_preset(preset);
  return parsed ? "accepted" : parsed.error().what;
}

std::string fabric_text(std::string_view fabric) {
  return fmt::format(
      R"({{"format": "tutti-preset", "version": 1, "name": "a", "title": "b", "sources": [
{{"of": "radix", "value": 8, "source": "s"}}], "fabric": {}}})",
      fabric);
}

TEST(PresetReader, ReadsAHostWithItsSources) {
  const auto preset = parse_preset(text(kSources));
  ASSERT_TRUE(preset) << preset.error().what;
  EXPECT_EQ(preset->host()->nodes().size(), 2U);
  ASSERT_EQ(preset->sources.size(), 3U);
  EXPECT_EQ(preset->sources[1], (PresetSource{"pci", "latency", 0.25, "t", true}));
}

TEST(PresetReader, RefusesNumbersThatNobodyVouchesFor) {
  EXPECT_THAT(preset_refusal(text("")), HasSubstr("the pci link from x/cpu0 to x/nic0 of 16 GB/s"));
  EXPECT_THAT(preset_refusal(text(R"({"of": "pci", "bandwidth": 16, "source": "s"})")),
              HasSubstr(R"(add {"of": "pci", "latency": 0.25, ...})"));
  EXPECT_THAT(preset_refusal(text(kSources, R"({"speed": "200000"})")),
              HasSubstr("`speed` of x/nic0: `sources` does not say where it is from"));
  EXPECT_THAT(preset_refusal(fabric_text(R"({"shape": "fat-tree", "radix": 16})")),
              HasSubstr("fabric.radix: `sources` does not say"));
}

TEST(PresetReader, RefusesSourcesThatSayNothing) {
  EXPECT_THAT(preset_refusal(text(R"({"of": "pci", "bandwidth": 16, "source": ""})")),
              HasSubstr("sources[0]: says nothing"));
  EXPECT_THAT(preset_refusal(text(R"({"of": "pci", "bandwidth": 16})")),
              HasSubstr("sources[0]: must have either `source` or `assumption`"));
  EXPECT_THAT(preset_refusal(text(R"({"of": "pci", "bandwidth": 1, "latency": 1, "source": "s"})")),
              HasSubstr("sources[0]: speaks of two numbers"));
}

TEST(PresetReader, NamesThePlaceOfWhatIsWrong) {
  EXPECT_THAT(preset_refusal("{\n \"a\": }"), HasSubstr("line 2 column 7"));
  EXPECT_THAT(preset_refusal("[]"), HasSubstr("format"));
  EXPECT_THAT(preset_refusal(R"({"a": 1, "a": 2})"), HasSubstr("the key `a` is there twice"));
  EXPECT_THAT(preset_refusal(std::string(100000, '[')), HasSubstr("nested deeper than 5"));
  EXPECT_THAT(preset_refusal(text(kSources, R"({"speed": 1})")),
              HasSubstr("host: nodes[1].attributes"));
  EXPECT_THAT(preset_refusal(text(kSources, R"({"speed": "fast"})")),
              HasSubstr("`fast`, which is no number"));
  EXPECT_THAT(preset_refusal(fabric_text(R"({"shape": "tree"})")),
              HasSubstr("fabric.shape: `tree` is no kind of fabric"));
  EXPECT_THAT(preset_refusal(fabric_text(R"({"shape": "torus", "radix": 8})")),
              HasSubstr("fabric: a torus has no parameter `radix`"));
  EXPECT_THAT(preset_refusal(fabric_text(R"({"shape": "fat-tree", "radix": 8.5})")),
              HasSubstr("fabric.radix: `8.5` must be a whole number from 2 to 1024"));
}

TEST(PresetLookup, SuggestsTheNearestName) {
  const auto preset = find_preset("dgx-h10");
  ASSERT_FALSE(preset);
  EXPECT_THAT(preset.error().what, HasSubstr("no preset `dgx-h10`; did you mean dgx-h100?"));
}

TEST(PresetLookup, ReadsFilesByTheirPaths) {
  const std::string path = ::testing::TempDir() + "preset_test_host.json";
  std::ofstream(path) << text(kSources);
  const auto preset = find_preset(path);
  ASSERT_TRUE(preset) << preset.error().what;
  EXPECT_EQ(preset->name, "a");
  std::ofstream(path) << "{";
  EXPECT_THAT(find_preset(path).error().what, HasSubstr("preset_test_host.json`: line 1 column"));
  std::remove(path.c_str());
  EXPECT_EQ(find_preset(path).error().code, Code::kUnavailable);
  EXPECT_EQ(find_preset("/").error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace tutti::topo
