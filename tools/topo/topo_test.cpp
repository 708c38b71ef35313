// Drives the built tutti-topo as its users do, on the machines of tests/data.
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/topo/format/xml_text.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/started.hpp"

namespace tutti::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kA100 = "--from " TUTTI_TEST_DATA "/topo/dgx_a100.xml ";
const std::string kCubeMesh = "--from " TUTTI_TEST_DATA "/topo/dgx1_v100.xml ";
const std::string kTwoSockets = "--from " TUTTI_TEST_DATA "/topo/pcie_two_socket.xml ";
const std::string kVm = "--machine " TUTTI_TEST_DATA "/machines/vm.txt ";

Outcome topo(const std::string& arguments) { return run_shell(TUTTI_TOPO_PROGRAM " " + arguments); }

std::string scratch_file(const std::string& name) {
  return testing::TempDir() + "tutti_topo_test." + std::to_string(::getpid()) + "." + name;
}

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Topo, DrawsATreeOfCpusSwitchesGpusAndNics) {
  const Outcome outcome = topo(kTwoSockets);
  EXPECT_EQ(outcome.code, kExitFine);
  EXPECT_THAT(outcome.output, StartsWith("1 host: "));
  for (const char* part : {"├─ cpu0", "└─ cpu1", "│  ├─ ", "system 10 GB/s to cpu1", "\nassumed\n"})
    EXPECT_THAT(outcome.output, HasSubstr(part));
}

TEST(Topo, ShowsWhichSwitchesAdd) {
  const Outcome outcome = topo("--synthetic gpu:2x2,nvls=1,sharp=2");
  EXPECT_EQ(outcome.code, kExitFine);
  EXPECT_THAT(outcome.output, HasSubstr("NVSwitch, adds: trees=1024,outstanding=0,parts=1;"));
  EXPECT_THAT(outcome.output, HasSubstr("spine0  switch, adds: trees=2  "));
}

TEST(Topo, ShowsAVirtualMachineAsItWasRecorded) {
  const Outcome outcome = topo(kVm);
  EXPECT_EQ(outcome.code, kExitFine);
  EXPECT_THAT(outcome.output, StartsWith("1 host: 1 CPU, 1 NIC\n\n"
                                         "vm   container docker\n"
                                         "└─ cpu0                  NUMA 0, CPUs 0-1"));
  EXPECT_THAT(outcome.output,
              HasSubstr("\n   └─ eth0  PCI 12 GB/s  0000:00:03.0; network 1.25 GB/s\n"));
}

const std::string kGraph = "--graph " TUTTI_TEST_DATA "/topo/graph_dgx1.xml ";

TEST(Topo, ShowsTheChannelsOfAGraphFile) {
  const Outcome outcome = topo(kGraph);
  EXPECT_EQ(outcome.code, kExitFine);
  EXPECT_EQ(
      outcome.output,
      "rings: 3 channels of pattern ring; 20 GB/s between GPUs by NVL; 12 GB/s to NICs by PIX\n"
      "  channels 0-1   nic0 → gpu0 → gpu1 → gpu2 → gpu3 → gpu7 → gpu6 → gpu5 → gpu4 → nic2\n"
      "  channel 2      nic2 → gpu4 → gpu5 → gpu6 → gpu7 → gpu3 → gpu2 → gpu1 → gpu0 → nic0\n"
      "\n"
      "trees: 1 channel of pattern ring; 20 GB/s between GPUs by NVL\n"
      "  channel 0      gpu0 → gpu3 → gpu2 → gpu1 → gpu0\n"
      "\n"
      "NVLS: no channel was found\n");
}

TEST(Topo, DrawsTheChannelsOfAGraphFile) {
  const Outcome outcome = topo(kGraph + "--svg -");
  EXPECT_EQ(outcome.code, kExitFine);
  EXPECT_TRUE(topo::XmlText::parse(outcome.output, "svg", topo::XmlWords::kSome));
  for (const char* part : {">channels 0-1<", ">nic2<", ">gpu7<", ">no channel was found<"})
    EXPECT_THAT(outcome.output, HasSubstr(part));
}

TEST(Topo, HoldsAGraphFileToTheMachineThatIsNamed) {
  EXPECT_EQ(topo(kGraph + kCubeMesh).code, kExitFine);
  const Outcome other = topo(kGraph + kTwoSockets);
  EXPECT_NE(other.code, kExitFine);
  EXPECT_THAT(other.output, HasSubstr("does not fit pcie_two_socket.xml: graph 0 channel 0: "));
  EXPECT_THAT(topo("--graph " TUTTI_TEST_DATA "/topo/dgx_a100.xml").output,
              HasSubstr("is no graph file of NCCL: line 1"));
  EXPECT_THAT(topo(kGraph + "--matrix").output, HasSubstr("--graph excludes --matrix"));
}

TEST(Topo, ReadsWhatOtherToolsPrint) {
  const Outcome smi = topo("--from " TUTTI_TEST_DATA "/machines/smi_h100.txt");
  EXPECT_EQ(smi.code, kExitFine);
  EXPECT_THAT(smi.output, StartsWith("1 host: 8 GPUs, 2 CPUs, 8 PCI switches, 1 NVSwitch, 8 NICs"));
  const Outcome lstopo = topo("--from " TUTTI_TEST_DATA "/machines/lstopo3_gpus.xml");
  EXPECT_EQ(lstopo.code, kExitFine);
  EXPECT_THAT(lstopo.output, StartsWith("1 host: 2 GPUs, 2 CPUs, 1 PCI switch, 2 NICs"));
  const Outcome amd = topo("--from " TUTTI_TEST_DATA "/topo/mi300x.xml --matrix");
  EXPECT_EQ(amd.code, kExitFine);
  EXPECT_THAT(amd.output, HasSubstr("NVL"));
  EXPECT_THAT(topo("--from " TUTTI_TEST_DATA "/topo/mi300x.xml").output,
              HasSubstr("gfx942, 0000:05:00.0; xGMI 48 GB/s to 7 GPUs"));
}

TEST(Topo, ShowsHostsThatAreAlikeOnce) {
  EXPECT_EQ(topo("--synthetic cpu:3x2@10GB/s").output,
            "3 hosts: 6 CPUs, 3 NICs, 1 switch\n"
            "\n"
            "h0\n"
            "└─ memory                   of all CPUs\n"
            "   ├─ cpu0  system 10 GB/s\n"
            "   ├─ cpu1  system 10 GB/s\n"
            "   └─ nic0  PCI 48 GB/s     network 10 GB/s to leaf0\n"
            "h1 .. h2: 2 more hosts, the same\n"
            "\n"
            "network\n"
            "leaf0  switch  network 10 GB/s to h0/nic0 h1/nic0 h2/nic0\n");
}

TEST(Topo, MatrixHasNcclsNamesOfPathsAndTheirMeaning) {
  const Outcome outcome = topo(kCubeMesh + "--matrix");
  EXPECT_EQ(outcome.code, kExitFine);
  EXPECT_THAT(outcome.output,
              HasSubstr("\ngpu0    X     NVL   NVL   NVL   NVL   NVB   NVB   NVB   PIX "));
  EXPECT_THAT(outcome.output, HasSubstr("  CPUs         NUMA\n"));
  EXPECT_THAT(outcome.output, HasSubstr("  0-19,40-59   0\n"));
  EXPECT_THAT(outcome.output, HasSubstr("\nNVB  two NVLinks, through the memory of the GPU"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("\nNET  ")));  // no such path
}

TEST(Topo, MatrixOfBandwidthsNamesTheNarrowestLink) {
  EXPECT_EQ(topo("--synthetic cpu:2x1@3GB/s --bandwidths").output,
            "         h0/nic0  h0/cpu0  h1/nic0  h1/cpu0\n"
            "h0/nic0        X       10        3        3\n"
            "h0/cpu0       10        X        3        3\n"
            "h1/nic0        3        3        X       10\n"
            "h1/cpu0        3        3       10        X\n"
            "\n"
            "GB/s from the row's node to the column's, of the narrowest link on the path that "
            "--matrix shows; -: no way\n");
}

TEST(Topo, LargeMatricesAreCutAndSaySo) {
  EXPECT_THAT(topo("--synthetic gpu:100x8 --matrix | tail -n 9").output,
              HasSubstr("the first 256 of 1800 GPUs, NICs and CPUs\n"));
}

TEST(Topo, SaysOfAFileWhatItLooksLikeAndWhereItErrs) {
  const std::string path = scratch_file("broken");
  const std::tuple<std::string, const char*> kCases[] = {
      {R"(<system version="1"><cpu numaid="x"/></system>)",
       "looks like NCCL's XML: line 1 column 21: "},
      {"<?xml version=\"1.0\"?>\n<topology>", "looks like hwloc's XML: "},
      {R"({"format": "tutti-topology")", "looks like Tutti's JSON: line 1 column 28: "},
      {"tutti machine 1\nwhat", "looks like a recorded machine: line 2"},
      {"\x7f"
       "ELF\x02 and so on",
       "is no topology: it begins with `\\x7fELF\\x02 and so on`"},
      {"<html></html>", "is no topology: it begins with `<html></html>`"},
      {"", "is empty"}};
  for (const auto& [text, words] : kCases) {
    std::ofstream(path) << text;
    const Outcome outcome = topo("--from " + path);
    EXPECT_EQ(outcome.code, kExitWrongData) << text;
    EXPECT_THAT(outcome.output, AllOf(HasSubstr(path), HasSubstr(words))) << text;
  }
}

TEST(Topo, ListsPresetsAndSyntheticMachinesWithTheirParameters) {
  const Outcome outcome = topo("--list");
  EXPECT_EQ(outcome.code, kExitFine);
  for (const char* part :
       {"  dgx-h100     NVIDIA DGX or HGX H100: ", "  rail-optimised  link=0,latency=0.6,radix=64",
        "  torus           link=0,latency=0.6,wrap=1,sizes=? ", "gpu:HOSTSxGPUS", "torus:XxYxZ",
        "  nvlink     GB/s of a GPU to the NVSwitch, 0 for none: 450\n"})
    EXPECT_THAT(outcome.output, HasSubstr(part));
}

TEST(Topo, MarksSlowedAndCutLinks) {
  const std::string machine =
      "--preset '4x dgx-h100 over rail-optimised with leaf3 to spine* at 0.5 with leaf1 to spine0 "
      "at 0' ";
  EXPECT_THAT(topo(machine).output,
              AllOf(HasSubstr("leaf3                 switch  network 200 GB/s (slowed to 50 %) to "
                              "spine0 spine1 spine2 spine3; network 50 GB/s to "),
                    HasSubstr("network cut (400 GB/s) to spine0"),
                    HasSubstr("leaf0                 switch  network 400 GB/s to spine0 ")));
  const std::string svg = topo(machine + "--svg -").output;
  EXPECT_THAT(svg, AllOf(HasSubstr(">network 200 GB/s (slowed to 50 %)<"),
                         HasSubstr(">network cut (400 GB/s)<"), HasSubstr("stroke-dasharray=")));
  EXPECT_THAT(topo("--preset '4x dgx-h100 over rail-optimised' --svg -").output,
              Not(HasSubstr("stroke-dasharray=")));
}

TEST(Topo, SuggestsTheNearestPresetInsideALine) {
  const std::tuple<std::string, const char*> kCases[] = {
      {"4x dgx-h10 over fat-tree",
       "column 4: there is no preset `dgx-h10`; did you mean dgx-h100?"},
      {"4x DGX-H100 over fat-tree", "did you mean dgx-h100?"},
      {"4x dgx-h100 over rail-optimized",
       "column 18: there is no preset `rail-optimized`; did you "
       "mean rail-optimised?"},
      {"supercomputer", "there is no preset `supercomputer`; there are cpu-2s, "}};
  for (const auto& [text, words] : kCases) {
    const Outcome outcome = topo("--preset '" + text + "'");
    EXPECT_EQ(outcome.code, kExitUsage) << text;
    EXPECT_THAT(outcome.output, HasSubstr(words)) << text;
  }
}

TEST(Topo, ShowsControlBytesOfNamesAsNumbers) {
  const Outcome outcome = topo("--from \"$(printf '/nowhere/\\033[2Jx\\n.xml')\"");
  EXPECT_EQ(outcome.code, kExitEnvironment);
  EXPECT_THAT(outcome.output, HasSubstr("'/nowhere/\\x1b[2Jx\\x0a.xml'"));
}

TEST(Topo, WrongUseNamesTheValueAndTheRemedy) {
  const std::string existing = scratch_file("bench.json");
  std::ofstream(existing) << "{}";
  const std::tuple<std::string, int, const char*> kCases[] = {
      {"--synthetic gpu:0x8", kExitUsage, "--synthetic 'gpu:0x8': column 5"},
      {"--synthetic gpu:2x8 --from x", kExitUsage, "--from"},
      {"--synthetc gpu:2x8", kExitUsage, "did you mean '--synthetic'?"},
      {"--from /nowhere/x.xml", kExitEnvironment, "/nowhere/x.xml"},
      {"--preset ''", kExitUsage, "the value of --preset is empty"},
      {"--from=", kExitUsage, "--from"},
      {kVm + "--svg ''", kExitUsage, "the value of --svg is empty"},
      {"--machine " + existing, kExitWrongData, "is no recorded machine"},
      {kVm + "--svg /nowhere/x.svg", kExitEnvironment, "/nowhere/x.svg"},
      {kVm + "--svg - --json -", kExitUsage, "--svg and --json cannot both go to standard output"},
      {kVm + "--xml - --matrix", kExitUsage, "give it a file"},
      {kVm + "--xml a.out --json a.out", kExitUsage, "--xml and --json cannot both go to 'a.out'"},
      {kVm + "--measured " + existing, kExitWrongData, "is not the JSON of a bench run"}};
  for (const auto& [arguments, code, hint] : kCases) {
    const Outcome outcome = topo(arguments);
    EXPECT_EQ(outcome.code, code) << arguments;
    EXPECT_THAT(outcome.output, HasSubstr(hint)) << arguments;
  }
}

TEST(Topo, WhatItWritesItReadsBackAsTheSame) {
  const std::string json = scratch_file("a.json"), xml = scratch_file("a.xml");
  const std::string tree = topo(kCubeMesh + "--json " + json + " --xml " + xml).output;
  const std::string without_assumptions = tree.substr(0, tree.find("\nassumed\n"));
  EXPECT_EQ(topo("--from " + json).output, without_assumptions);
  EXPECT_EQ(topo("--from " + xml).output, tree);
  EXPECT_EQ(topo("--from " + json + " --json -").output, contents(json));
}

TEST(Topo, ThisMachineCanBeRecordedAndShownAgain) {
  const std::string record = scratch_file("machine.txt");
  const Outcome live = topo("--record " + record);
  EXPECT_EQ(live.code, kExitFine);
  EXPECT_EQ(topo("--from " + record).output, live.output);
}

TEST(Topo, ShowsMeasurementsBesideTheNetworkOfAHost) {
  const std::string run = scratch_file("run.json");
  std::ofstream(run) << R"({"collective": "all_reduce", "ranks": 4, "hosts": 2, "results": [
      {"size": 1024, "algorithm": "tree", "out_of_place": {"bus_bw": 1.5}, "in_place": null},
      {"size": 1048576, "algorithm": "ring", "out_of_place": {"bus_bw": 7.0},
       "in_place": {"bus_bw": 7.5}}]})";
  const std::string sentence =
      "all_reduce, 4 ranks on 2 hosts: 7.5 GB/s bus bandwidth (1 MiB, ring), 75 % of the network "
      "of a host";
  EXPECT_THAT(topo("--synthetic cpu:2x2@10GB/s --measured " + run).output,
              HasSubstr("\nmeasured\n  " + sentence + "\n"));
  EXPECT_THAT(topo("--synthetic cpu:2x2@10GB/s --svg - --measured " + run).output,
              HasSubstr(sentence));
  const Outcome too_small = topo("--synthetic cpu:1x4 --measured " + run);
  EXPECT_EQ(too_small.code, kExitUsage);
  EXPECT_THAT(too_small.output, HasSubstr("was measured on 2 hosts, and the topology has 1"));
}

// --- pictures ------------------------------------------------------------------------------------

struct Rectangle {
  double x, y, width, height;
};

/// The boxes of nodes, which stand in groups with a tooltip.
std::vector<Rectangle> boxes_of(const topo::XmlText& picture) {
  std::vector<Rectangle> boxes;
  for (const auto group : picture.root().children("g")) {
    const auto box = group.child("rect");
    boxes.push_back({box.attribute("x").as_double(), box.attribute("y").as_double(),
                     box.attribute("width").as_double(), box.attribute("height").as_double()});
  }
  return boxes;
}

bool overlap(const Rectangle& a, const Rectangle& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

class TopoPicture : public testing::TestWithParam<std::string> {};

TEST_P(TopoPicture, IsXmlWhoseBoxesLieApartAndInside) {
  const Outcome outcome = topo(GetParam() + " --svg -");
  ASSERT_EQ(outcome.code, kExitFine) << outcome.output;
  const auto picture = topo::XmlText::parse(outcome.output, "svg", topo::XmlWords::kSome);
  ASSERT_TRUE(picture) << picture.error().what;
  const double width = picture->root().attribute("width").as_double();
  const double height = picture->root().attribute("height").as_double();
  const std::vector<Rectangle> boxes = boxes_of(*picture);
  ASSERT_FALSE(boxes.empty());
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    EXPECT_GE(boxes[i].x, 0);
    EXPECT_GE(boxes[i].y, 0);
    EXPECT_LE(boxes[i].x + boxes[i].width, width);
    EXPECT_LE(boxes[i].y + boxes[i].height, height);
    for (std::size_t k = 0; k < i; ++k) EXPECT_FALSE(overlap(boxes[i], boxes[k])) << i << " " << k;
  }
  EXPECT_EQ(topo(GetParam() + " --svg -").output, outcome.output);  // the same every time
}

INSTANTIATE_TEST_SUITE_P(
    Machines, TopoPicture,
    testing::Values(
        kA100, kCubeMesh, kTwoSockets, kVm, "--from " TUTTI_TEST_DATA "/topo/hgx_h100.xml",
        "--machine " TUTTI_TEST_DATA "/machines/dgx_a100.txt",
        "--machine " TUTTI_TEST_DATA "/machines/two_sockets.txt",
        "--machine " TUTTI_TEST_DATA "/machines/broken.txt", "--synthetic gpu:2x8",
        "--synthetic gpu:4x8", "--synthetic gpu:4x4,fabric=switch", "--synthetic cpu:4x4",
        "--synthetic gpu:1000x8,spines=64", "--synthetic torus:4x4", "--synthetic mesh:3x3x3",
        "--synthetic torus:100x100", "--synthetic ring:8",
        "--preset '16x dgx-a100 over fat-tree:radix=8'",
        "--preset '4x dgx-h100 over rail-optimised'", "--preset '16x cpu-2s over torus:sizes=4x4'",
        "--preset '16x tpu-v4 over torus:sizes=4x4x4'", "--preset '8x cpu-2s over optical-ring'",
        "--preset '16x cpu-2s over hxmesh:sizes=2x2'", "--synthetic ring:200"));

TEST(TopoPicture, OfManyHostsShowsOneAndSaysHowManyAreAlike) {
  EXPECT_THAT(topo("--synthetic gpu:128x8 --svg -").output,
              HasSubstr("the first of 128 hosts is drawn: the others are built like it"));
}

TEST(TopoPicture, IsAsWideAsWhatIsWrittenAboveIt) {
  const std::string run = scratch_file("wide.json");
  std::ofstream(run) << R"({"collective": "all_reduce", "ranks": 2, "hosts": 1, "results": [
      {"size": 1024, "algorithm": "double_binary_tree", "out_of_place": {"bus_bw": 1.5},
       "in_place": null}]})";
  const std::string svg = topo("--synthetic cpu:1x1 --svg - --measured " + run).output;
  const auto picture = topo::XmlText::parse(svg, "svg", topo::XmlWords::kSome);
  ASSERT_TRUE(picture) << picture.error().what;
  EXPECT_GT(picture->root().attribute("width").as_double(), 550);
}

TEST(TopoPicture, CountsHostsAsAlikeOnWhateverSwitchTheyAre) {
  const auto note = [](const std::string& machine, const std::string& words) {
    EXPECT_THAT(topo("--preset '" + machine + "' --svg -").output, HasSubstr(words)) << machine;
  };
  note("16x dgx-a100 over fat-tree:radix=8", "the others are built like it");
  note("16x cpu-2s over torus:sizes=4x4",
       "below the network is the first host: the others are built like it");
  note("4x dgx-h100 over rail-optimised with h2/nic0 at 0.5", "2 of 3 others are built like it");
}

TEST(TopoPicture, OfAPresetTorusIsAGridOfItsHosts) {
  const std::string svg = topo("--preset '16x cpu-2s over torus:sizes=4x4' --svg -").output;
  const auto picture = topo::XmlText::parse(svg, "svg", topo::XmlWords::kSome);
  ASSERT_TRUE(picture) << picture.error().what;
  std::map<std::string, std::pair<double, double>> places;
  for (const auto group : picture->root().children("g"))
    places[group.child("title").text().get()] = {group.child("rect").attribute("x").as_double(),
                                                 group.child("rect").attribute("y").as_double()};
  EXPECT_EQ(places["router1.2: switch"].first, places["router3.2: switch"].first);
  EXPECT_EQ(places["router1.2: switch"].second, places["router1.0: switch"].second);
  EXPECT_NE(places["router1.2: switch"], places["router1.0: switch"]);
  EXPECT_THAT(svg, AllOf(HasSubstr(">h15</text>"), HasSubstr("font-weight=\"bold\">h0</text>")));
}

TEST(TopoPicture, NamesOfNodesCannotBreakTheXml) {
  const std::string path = scratch_file("names.json");
  std::ofstream(path) << R"({"format": "tutti-topology", "version": 1,
      "hosts": [{"name": "a<b>&\"c"}],
      "nodes": [{"kind": "cpu", "host": 0, "name": "<&\"'>"}], "links": []})";
  const Outcome outcome = topo("--from " + path + " --svg -");
  const auto picture = topo::XmlText::parse(outcome.output, "svg", topo::XmlWords::kSome);
  ASSERT_TRUE(picture) << picture.error().what;
  EXPECT_THAT(outcome.output, HasSubstr("a&lt;b&gt;&amp;&quot;c"));
}

}  // namespace
}  // namespace tutti::tools
