#include "src/topo/smi/matrix.hpp"

#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/topo/model/paths.hpp"
#include "src/topo/smi/matrix_text.hpp"

namespace tutti::topo {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string file(const std::string& name) {
  std::ifstream stream(std::string(TUTTI_TEST_DATA) + "/" + name);
  EXPECT_TRUE(stream) << name;
  return {std::istreambuf_iterator<char>(stream), {}};
}

Noted read(const std::string& text) {
  auto noted = read_smi_matrix(text);
  EXPECT_TRUE(noted) << noted.error().what;
  return noted ? *std::move(noted) : Noted{*Topology::create({}), {}};
}

std::string smi_error(std::string_view text) {
  const auto noted = read_smi_matrix(text);
  return noted ? "no error" : noted.error().what;
}

std::vector<std::string> names(const Topology& topology, NodeKind kind) {
  std::vector<std::string> found;
  for (const Node& node : topology.nodes())
    if (node.kind == kind) found.push_back(node.name);
  return found;
}

NodeId node_of(const Topology& topology, const smi::Device& device) {
  const std::string name = device.is_gpu ? "gpu" + device.name.substr(3) : device.name;
  for (NodeId id = 0; id < topology.nodes().size(); ++id)
    if (topology.node(id).name == name) return id;
  ADD_FAILURE() << "no node " << name;
  return 0;
}

PathKind path_of(const smi::Cell& cell) {
  constexpr PathKind kPaths[] = {PathKind::kLocal,       PathKind::kPci,
                                 PathKind::kPciSwitches, PathKind::kHostBridge,
                                 PathKind::kHostBridge,  PathKind::kSystem};
  return cell.nvlinks > 0 ? PathKind::kNvlink : kPaths[static_cast<std::size_t>(cell.distance)];
}

/// The paths through the topology are those of the matrix that it was made from.
void expect_the_same_distances(const std::string& text) {
  const Topology topology = read(text).topology;
  const auto matrix = smi::parse_matrix(text);
  ASSERT_TRUE(matrix);
  PathFinder finder(topology);
  for (const smi::Device& from : matrix->devices)
    for (std::size_t to = 0; to < matrix->devices.size(); ++to)
      EXPECT_EQ(
          finder.find(node_of(topology, from), node_of(topology, matrix->devices[to]), 0).kind,
          path_of(from.to[to]))
          << from.name << " to " << matrix->devices[to].name;
}

TEST(SmiMatrix, HasThePathsOfTheMatrix) {
  expect_the_same_distances(file("smi_h100.txt"));
  expect_the_same_distances(file("smi_pcie.txt"));
}

TEST(SmiMatrix, ReadsGpusBehindNvswitches) {
  const auto [topology, assumptions] = read(file("smi_h100.txt"));
  EXPECT_EQ(names(topology, NodeKind::kGpu).size(), 8U);
  EXPECT_THAT(names(topology, NodeKind::kNic), Contains("mlx5_7"));
  EXPECT_THAT(names(topology, NodeKind::kCpu), ElementsAre("cpu0", "cpu1"));
  EXPECT_THAT(names(topology, NodeKind::kNvswitch), ElementsAre("nvswitch"));
  for (const Link& link : topology.links())
    if (link.kind == LinkKind::kNvlink) {
      EXPECT_NEAR(link.bandwidth, 18 * 20.6, 1e-9);
    }
  EXPECT_THAT(assumptions, Contains("GPUs with 18 NVLinks count as sm 90"));
}

TEST(SmiMatrix, GuessesTheNumaNodesThatAnOldDriverDoesNotTell) {
  const auto [topology, assumptions] = read(file("smi_pcie.txt"));
  EXPECT_THAT(names(topology, NodeKind::kCpu), ElementsAre("cpu0", "cpu1"));
  EXPECT_THAT(names(topology, NodeKind::kPci), ElementsAre("pci0", "pci1", "pci2", "pci3"));
  EXPECT_THAT(names(topology, NodeKind::kNic), ElementsAre("mlx5_0"));
}

TEST(SmiMatrix, KeepsGpusTogetherThatNvlinksJoinWhereNothingTellsThemApart) {
  const auto cpus = [](const std::string& text) {
    return names(read(text).topology, NodeKind::kCpu).size();
  };
  EXPECT_EQ(cpus("GPU0 GPU1 CPU Affinity\nGPU0 X NV4 0-19\nGPU1 NV4 X 0-19"), 1U);
  EXPECT_EQ(cpus("GPU0 GPU1 CPU Affinity\nGPU0 X NV4 0-9\nGPU1 NV4 X 10-19"), 2U);
  EXPECT_EQ(cpus("GPU0 GPU1\nGPU0 X NV4\nGPU1 NV4 X"), 1U);
  // A NIC that is near one of them alone tells them apart.
  EXPECT_EQ(cpus("GPU0 GPU1 NIC0\nGPU0 X NV4 PIX\nGPU1 NV4 X SYS\nNIC0 PIX SYS X"), 2U);
}

TEST(SmiMatrix, TakesNoNameThatCouldHarmATerminal) {
  EXPECT_THAT(smi_error("GPU0 N\x07\nGPU0 X SYS\nN\x07 SYS X"), HasSubstr("no name of a device"));
  const auto [topology, assumptions] = read(
      "GPU0 NIC0 NIC1\nGPU0 X SYS SYS\nNIC0 SYS X SYS\nNIC1 SYS SYS X\n"
      "NIC0: \x1b]0;owned\x07\nNIC0: NIC1\nNIC1: mlx5_1\n");
  EXPECT_THAT(names(topology, NodeKind::kNic), ElementsAre("NIC1", "mlx5_1"));
}

TEST(SmiMatrix, KeepsNvlinksOfPairsThatAGpuCanHave) {
  const auto [topology, assumptions] =
      read("\tGPU0 GPU1 GPU2\nGPU0 X NV2 NV1\nGPU1 NV2 X SYS\nGPU2 NV1 SYS X\n");
  EXPECT_THAT(names(topology, NodeKind::kNvswitch), ElementsAre());
  std::vector<double> bandwidths;
  for (const Link& link : topology.links())
    if (link.kind == LinkKind::kNvlink && link.from < link.to) bandwidths.push_back(link.bandwidth);
  EXPECT_THAT(bandwidths, ElementsAre(40, 20));
  EXPECT_THAT(assumptions, Contains("an NVLink counts as 20 GB/s"));
}

TEST(SmiMatrix, NamesTheLineOfWhatIsWrong) {
  EXPECT_THAT(smi_error(""), HasSubstr("no line begins with GPU0"));
  EXPECT_EQ(smi_error("GPU0 GPU1\nGPU0 X SYS\n"), "line 2: the text ends after 1 of 2 rows");
  EXPECT_EQ(smi_error("GPU0 GPU1\nGPU0 X\nGPU1 SYS X"),
            "line 2: GPU0 says how to reach 1 devices of 2");
  EXPECT_EQ(smi_error("GPU0 GPU1\nGPU0 X SYS\nGPU1 PIX X"),
            "line 3: GPU1 reaches GPU0 in another way than the other reaches it");
  EXPECT_THAT(smi_error("GPU0 GPU1\nGPU0 X ABC\nGPU1 SYS X"),
              HasSubstr("line 2: GPU0 to GPU1: X, PIX"));
  EXPECT_THAT(smi_error("GPU0 NIC0\nGPU0 X NV4\nNIC0 NV4 X"), HasSubstr("between GPUs, NV#"));
  EXPECT_THAT(smi_error("GPU0 GPU0\nGPU0 X SYS\nGPU0 SYS X"), HasSubstr("two devices `GPU0`"));
  EXPECT_THAT(smi_error("GPU0 GPU1\nGPU1 X SYS\nGPU0 SYS X"), HasSubstr("the row of `GPU0`"));
  EXPECT_THAT(smi_error("GPU0 GPU1 GPU2\nGPU0 X PIX PIX\nGPU1 PIX X SYS\nGPU2 PIX SYS X"),
              HasSubstr("line 4: GPU2 and GPU1 are nearer to each other by way of other devices"));
  EXPECT_THAT(smi_error("GPU0 GPU1 NUMA Affinity\nGPU0 X PIX 0\nGPU1 PIX X 1"),
              HasSubstr("line 3: GPU1 is of NUMA node 1, and what is near it of 0"));
}

}  // namespace
}  // namespace tutti::topo
