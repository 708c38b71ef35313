// How long it takes to grow a forest: what a job waits for when it starts, or when a link degrades.
//
// Machines of 8 GPUs on an NVSwitch, with a NIC for each GPU on two network switches.
// `trees`: from each root; `different`: trees in the whole forest, equal ones counted once;
// `height`: messages one after the other on the longest way.
#include <algorithm>

#include <benchmark/benchmark.h>

#include "src/topo/forest/forest.hpp"
#include "src/topo/forest/sample_networks.hpp"

namespace tutti::topo::forest {
namespace {

void grow_over(benchmark::State& state, const Network& network) {
  Result<Forest> forest = grow(network);
  if (!forest) return state.SkipWithError(forest.error().what.c_str());
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(grow(network));
  std::int32_t highest = 0;
  for (const Tree& tree : forest->trees) highest = std::max(highest, height(tree));
  state.counters["trees"] = static_cast<double>(forest->trees_per_root);
  state.counters["different"] = static_cast<double>(forest->trees.size());
  state.counters["height"] = highest;
}

void a100(benchmark::State& state) {
  grow_over(state, nvswitch_boxes(static_cast<int>(state.range(0)), 300, 25));
}

void h100(benchmark::State& state) {
  grow_over(state, nvswitch_boxes(static_cast<int>(state.range(0)), 450, 50));
}

/// One NIC of the first machine has half its bandwidth.
void degraded_h100(benchmark::State& state) {
  Network network = nvswitch_boxes(static_cast<int>(state.range(0)), 450, 50);
  for (Network::Link& link : network.links) {
    if (std::min(link.from, link.to) == 0 && std::max(link.from, link.to) == 3) link.capacity /= 2;
  }
  grow_over(state, network);
}

void square_torus(benchmark::State& state) {
  const int side = static_cast<int>(state.range(0));
  grow_over(state, torus({side, side}));
}

BENCHMARK(a100)->Arg(2)->Arg(8)->Arg(16)->Unit(benchmark::kMillisecond);
BENCHMARK(h100)->Arg(2)->Arg(8)->Arg(16)->Unit(benchmark::kMillisecond);
BENCHMARK(degraded_h100)->Arg(2)->Arg(8)->Arg(16)->Unit(benchmark::kMillisecond);
BENCHMARK(square_torus)->Arg(4)->Arg(8)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tutti::topo::forest

BENCHMARK_MAIN();
