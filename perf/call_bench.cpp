// What a call costs beside the bytes that it moves: an all-reduce of 8 bytes through the C API by
// one thread that drives all ranks, so that it waits for nobody.
//
// A *repeated* call is like the last one of its communicator; of *alternating* ones every other is,
// so that each looks for its plan. The argument is the number of ranks.
#include <cstddef>

#include <benchmark/benchmark.h>

#include "nccl.h"
#include "perf/ranks.hpp"

namespace {

using perf::check;
using perf::Ranks;

constexpr std::size_t kBytes = 8;

void empty_group(benchmark::State& state) {
  for ([[maybe_unused]] auto _ : state) {
    check(ncclGroupStart());
    check(ncclGroupEnd());
  }
}
BENCHMARK(empty_group);

void lone_call(benchmark::State& state) {
  Ranks ranks(1, kBytes);
  for ([[maybe_unused]] auto _ : state) ranks.call(0, ncclFloat32, 2);
}
BENCHMARK(lone_call);

void repeated(benchmark::State& state) {
  Ranks ranks(static_cast<std::size_t>(state.range(0)), kBytes);
  for ([[maybe_unused]] auto _ : state) ranks.call_all(ncclFloat32, 2);
}
BENCHMARK(repeated)->Arg(1)->Arg(2)->Arg(4)->Arg(8);

void alternating(benchmark::State& state) {
  Ranks ranks(static_cast<std::size_t>(state.range(0)), kBytes);
  bool floats = false;
  for ([[maybe_unused]] auto _ : state) {
    floats = !floats;
    ranks.call_all(floats ? ncclFloat32 : ncclFloat64, floats ? 2 : 1);
  }
}
BENCHMARK(alternating)->Arg(1)->Arg(2)->Arg(4)->Arg(8);

}  // namespace

BENCHMARK_MAIN();
