// The presets hold to the optima that are published for the machines they stand for.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/topo/forest/from_topology.hpp"
#include "src/topo/forest/optimum.hpp"
#include "src/topo/model/paths.hpp"
#include "tools/machines/machine.hpp"

namespace tutti::topo::forest {
namespace {

/// The machine as papers on synthesis draw it: each NIC hangs on one GPU behind its PCI switch, and
/// between GPUs of a host there are only NVLinks. The models leave PCIe between GPUs out.
Topology as_published(const Topology& machine) {
  Parts parts = machine.parts();
  std::vector<Link> links;
  std::vector<char> taken(parts.nodes.size(), 0);
  PathFinder paths(machine);
  for (const Link& link : parts.links)
    if (link.kind == LinkKind::kNvlink || link.kind == LinkKind::kNetwork) links.push_back(link);
  for (NodeId nic = 0; nic < parts.nodes.size(); ++nic) {
    if (parts.nodes[nic].kind != NodeKind::kNic) continue;
    for (const NodeId gpu : machine.nodes_of(parts.nodes[nic].host)) {
      if (parts.nodes[gpu].kind != NodeKind::kGpu || taken[gpu] != 0) continue;
      const Path path = paths.find(gpu, nic);
      if (path.kind > PathKind::kPciSwitches) continue;
      taken[gpu] = 1;
      links.push_back({gpu, nic, LinkKind::kPci, path.bandwidth, 0});
      links.push_back({nic, gpu, LinkKind::kPci, path.bandwidth, 0});
      break;
    }
  }
  // CPUs and PCI switches are now joined with nothing.
  parts.links = std::move(links);
  return *Topology::create(std::move(parts));
}

struct PublishedPreset {
  std::string machine;
  double bandwidth;  // GB/s, of an all-gather's whole output
};

class PublishedOptimum : public ::testing::TestWithParam<PublishedPreset> {};

TEST_P(PublishedOptimum, IsThatOfThePreset) {
  const auto machine = machine_topology(GetParam().machine);
  ASSERT_TRUE(machine) << machine.error().what;
  const Topology topology = as_published(*machine);
  const auto network = network_of(topology, one_rank_each(topology));
  ASSERT_TRUE(network) << network.error().what;
  const auto optimum = find_optimum(network->network);
  ASSERT_TRUE(optimum) << optimum.error().what;
  const std::size_t ranks = network->network.compute_nodes().size();
  EXPECT_NEAR(algorithm_bandwidth(network->network, ranks, optimum->time), GetParam().bandwidth,
              0.01);
}

// Zhao et al., ForestColl (arXiv 2402.06787), its models of A100, H100 and MI250; Liu et al.,
// TE-CCL (SIGCOMM 2024), its models of NDv2 and DGX-2, which count 125 GB/s between a GPU and its
// NVSwitch.
INSTANTIATE_TEST_SUITE_P(
    All, PublishedOptimum,
    ::testing::Values(
        PublishedPreset{"dgx-1", 171.43}, PublishedPreset{"dgx-a100", 342.86},
        PublishedPreset{"2x dgx-a100 over rail-optimised", 346.67},
        PublishedPreset{"4x dgx-a100 over rail-optimised", 266.67},
        PublishedPreset{"2x dgx-h100 over rail-optimised", 533.33},
        PublishedPreset{"4x dgx-h100 over rail-optimised", 516.13},
        PublishedPreset{"mi250", 342.86}, PublishedPreset{"2x ndv2 over fat-tree", 25},
        PublishedPreset{"4x ndv2 over fat-tree", 16.67},
        PublishedPreset{"2x dgx-2 over rail-optimised with h*/gpu* to h*/nvswitch at 0.8333333334",
                        129.03},
        // A torus of 4x4x4 whose links have 1 GB/s: 6.095 GB/s.
        PublishedPreset{"16x tpu-v4 over torus:sizes=4x4x4", 50 * 6 * 64.0 / 63}));

}  // namespace
}  // namespace tutti::topo::forest
