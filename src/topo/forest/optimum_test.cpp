#include "src/topo/forest/optimum.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/topo/forest/sample_networks.hpp"

namespace tutti::topo::forest {
namespace {

// xGMI links of 50 GB/s between the 16 dies of a machine with 8 AMD MI250.
constexpr int kMi250[16][16] = {{0, 4, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0},
                                {4, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0},
                                {0, 0, 0, 4, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0},
                                {0, 0, 4, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0},
                                {2, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0},
                                {0, 1, 0, 0, 4, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0},
                                {0, 0, 1, 0, 1, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0},
                                {0, 0, 0, 2, 0, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0},
                                {1, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 2, 0, 0, 0},
                                {0, 1, 1, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 1, 0, 0},
                                {0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 1, 0},
                                {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 2},
                                {0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 4, 1, 0},
                                {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 4, 0, 1, 1},
                                {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 0, 4},
                                {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 4, 0}};

Network mi250_boxes(int boxes, double nic) {
  NetworkBuilder build;
  const Vertex outside = boxes > 1 ? build.switches("ib") : 0;
  for (int box = 0; box < boxes; ++box) {
    std::vector<Vertex> dies;
    for (int die = 0; die < 16; ++die) {
      dies.push_back(build.computes(fmt::format("die{}.{}", box, die)));
      if (boxes > 1) build.both_ways(dies.back(), outside, nic);
    }
    for (std::size_t a = 0; a < 16; ++a) {
      for (std::size_t b = 0; b < 16; ++b) {
        if (kMi250[a][b] > 0) build.one_way(dies[a], dies[b], 50.0 * kMi250[a][b]);
      }
    }
  }
  return std::move(build).finish();
}

/// DGX-1 machines whose GPU 1 sends to GPU 0 of the others, as TE-CCL models Azure's NDv2: directly
/// between two, through a switch between more.
Network ndv2_boxes(int boxes) {
  NetworkBuilder build;
  std::vector<std::vector<Vertex>> gpus;
  for (int box = 0; box < boxes; ++box) gpus.push_back(add_cube_mesh(build, box));
  if (boxes == 2) {
    build.one_way(gpus[0][1], gpus[1][0], 12.5);
    build.one_way(gpus[1][1], gpus[0][0], 12.5);
    return std::move(build).finish();
  }
  const Vertex outside = build.switches("ib");
  for (const std::vector<Vertex>& box : gpus) {
    build.one_way(box[1], outside, 12.5);
    build.one_way(outside, box[0], 12.5);
  }
  return std::move(build).finish();
}

/// Two DGX-2: 16 GPUs with 125 GB/s to their switch, and from each odd GPU 12.5 GB/s to the even
/// one before it in the other machine.
Network dgx2_pair() {
  NetworkBuilder build;
  std::vector<std::vector<Vertex>> gpus(2);
  for (int box = 0; box < 2; ++box) {
    const Vertex nvswitch = build.switches(fmt::format("nvs{}", box));
    for (int gpu = 0; gpu < 16; ++gpu) {
      const Vertex rank = build.computes(fmt::format("gpu{}.{}", box, gpu));
      build.both_ways(rank, nvswitch, 125);
      gpus[static_cast<std::size_t>(box)].push_back(rank);
    }
  }
  for (std::size_t odd = 1; odd < 16; odd += 2) {
    build.one_way(gpus[0][odd], gpus[1][odd - 1], 12.5);
    build.one_way(gpus[1][odd], gpus[0][odd - 1], 12.5);
  }
  return std::move(build).finish();
}

std::size_t ranks_of(const Network& network) { return network.compute_nodes().size(); }

struct Published {
  std::string machine;
  Network network;
  double bandwidth;  ///< GB/s, algorithm bandwidth of an all-gather, to two decimals
};

std::vector<Published> published() {
  return {{"DGX-1 V100", dgx1(), 171.43},
          {"ring of 8", torus({8}), 2.286},
          {"torus 4x4", torus({4, 4}), 4.267},
          {"torus 8x8", torus({8, 8}), 4.063},
          {"torus 4x4x4", torus({4, 4, 4}), 6.095},
          {"1x8 A100", nvswitch_boxes(1, 300, 0), 342.86},
          {"2x8 A100", nvswitch_boxes(2, 300, 25), 346.67},
          {"4x8 A100", nvswitch_boxes(4, 300, 25), 266.67},
          {"2x8 H100", nvswitch_boxes(2, 450, 50), 533.33},
          {"4x8 H100", nvswitch_boxes(4, 450, 50), 516.13},
          {"2x8 H800", nvswitch_boxes(2, 200, 50), 266.67},
          {"1x16 MI250", mi250_boxes(1, 0), 342.86},
          {"2x16 MI250, 16 GB/s", mi250_boxes(2, 16), 354.13},
          {"2x16 MI250, 12.5 GB/s", mi250_boxes(2, 12.5), 346.67},
          {"2x8 NDv2", ndv2_boxes(2), 25.0},
          {"4x8 NDv2", ndv2_boxes(4), 16.667},
          {"2x16 DGX-2", dgx2_pair(), 129.03}};
}

TEST(Optimum, IsThePublishedOneOnSeventeenMachines) {
  const std::vector<Published> machines = published();
  ASSERT_EQ(machines.size(), 17U);
  for (const Published& machine : machines) {
    SCOPED_TRACE(machine.machine);
    const auto found = find_optimum(machine.network);
    ASSERT_TRUE(found) << found.error().what;
    const double bandwidth =
        algorithm_bandwidth(machine.network, ranks_of(machine.network), found->time);
    const double unit = machine.bandwidth < 20 ? 0.001 : 0.01;  // of the last decimal published
    EXPECT_NEAR(bandwidth, machine.bandwidth, unit / 2 + 1e-9);
  }
}

TEST(Optimum, IsAnExactFraction) {
  // 16 GPUs, each with 650 half GB/s into it, wait for 15 units of data.
  const auto found = find_optimum(nvswitch_boxes(2, 300, 25));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->time.numerator, 3);
  EXPECT_EQ(found->time.denominator, 130);
}

/// The largest ratio over all cuts, one by one.
Ratio worst_cut(const Network& network, const std::vector<Vertex>& roots) {
  Ratio worst{0, 1};
  for (std::uint64_t inside = 1; inside < (std::uint64_t{1} << network.nodes.size()); ++inside) {
    const auto is_inside = [&](Vertex v) { return (inside >> v & 1U) != 0; };
    bool holds_all = true;
    for (const Vertex v : network.compute_nodes()) holds_all = holds_all && is_inside(v);
    if (holds_all) continue;
    Ratio ratio{0, 0};
    for (const Vertex root : roots) ratio.numerator += is_inside(root) ? 1 : 0;
    for (const Network::Link& link : network.links) {
      if (is_inside(link.from) && !is_inside(link.to)) ratio.denominator += link.capacity;
    }
    if (ratio.numerator > 0 && ratio > worst) worst = ratio;
  }
  return worst;
}

TEST(Optimum, IsTheWorstOfAllCutsOnRandomNetworks) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    const Network network = random_network(
        random,
        {2 + static_cast<int>(random() % 5), static_cast<int>(random() % 4), random() % 2 == 0});
    if (!check(network)) continue;  // bringing switches into balance may cut it in two
    std::vector<Vertex> roots = network.compute_nodes();
    if (round % 3 == 0) roots.resize(1);
    const auto found = find_optimum(network, roots);
    ASSERT_TRUE(found) << found.error().what;
    EXPECT_EQ(found->time, worst_cut(network, roots)) << "round " << round;
  }
}

TEST(Optimum, NamesTheCutThatLimitsIt) {
  const Network network = nvswitch_boxes(4, 300, 25);
  const auto found = find_optimum(network);
  ASSERT_TRUE(found);
  // Three machines send to the fourth through its eight NICs.
  const std::string text = describe_bottleneck(network, network.compute_nodes(), *found);
  EXPECT_NE(text.find("24 of 32 roots send through links of 200 GB/s"), std::string::npos) << text;
}

TEST(Optimum, OfABroadcastIsTheWeakestWayFromTheRoot) {
  // On a DGX-1 each GPU can receive over all its six links at once: 150 GB/s.
  const Network network = dgx1();
  const std::vector<Vertex> root = {3};
  const auto found = find_optimum(network, root);
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(algorithm_bandwidth(network, 1, found->time), 150);
}

TEST(Optimum, OfOneRankIsNoTimeAtAll) {
  NetworkBuilder build;
  build.computes("alone");
  const Network network = std::move(build).finish();
  const auto found = find_optimum(network);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->time, (Ratio{0, 1}));
  EXPECT_EQ(algorithm_bandwidth(network, 1, found->time), std::numeric_limits<double>::infinity());
}

TEST(Optimum, StaysExactNextToTheLimitOfCapacity) {
  Network network = torus({4});
  for (Network::Link& link : network.links) link.capacity = kMostTotalCapacity / 8;
  network.links[0].capacity -= 1;  // one unit in 2^41 less into one node
  const auto found = find_optimum(network);
  ASSERT_TRUE(found) << found.error().what;
  EXPECT_EQ(found->time, (Ratio{3, kMostTotalCapacity / 4 - 1}));
}

TEST(Optimum, RefusesRootsThatAreNoRanksOrComeTwice) {
  const Network network = nvswitch_boxes(1, 300, 0);
  const std::vector<Vertex> a_switch = {0};
  const std::vector<Vertex> twice = {1, 1};
  EXPECT_EQ(find_optimum(network, a_switch).error().code, Code::kInvalidArgument);
  EXPECT_EQ(find_optimum(network, twice).error().what, "root gpu0.0 is named twice");
  EXPECT_EQ(find_optimum(network, std::vector<Vertex>{}).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace tutti::topo::forest
