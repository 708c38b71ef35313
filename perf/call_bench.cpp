// What a call costs beside the bytes that it moves: an all-reduce of 8 bytes through the C API by
// one thread that drives all ranks, so that it waits for nobody.
//
// A *repeated* call is like the last one of its communicator; of *alternating* ones every other is,
// so that each looks for its plan. The argument is the number of ranks.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <benchmark/benchmark.h>

#include "nccl.h"

namespace {

void check(ncclResult_t result) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "call_bench: %s: %s\n", ncclGetErrorString(result),
               ncclGetLastError(nullptr));
  std::exit(1);
}

/// Communicators of one job, all of this thread.
class Ranks {
 public:
  explicit Ranks(std::size_t count) : comms_(count), data_(2 * count) {
    check(ncclCommInitAll(comms_.data(), static_cast<int>(count), nullptr));
  }
  ~Ranks() {
    check(ncclGroupStart());
    for (ncclComm_t comm : comms_) check(ncclCommDestroy(comm));
    check(ncclGroupEnd());
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void call(std::size_t rank, ncclDataType_t type, std::size_t count) {
    check(ncclAllReduce(&data_[2 * rank], &data_[2 * rank + 1], count, type, ncclSum, comms_[rank],
                        nullptr));
  }
  void call_all(ncclDataType_t type, std::size_t count) {
    check(ncclGroupStart());
    for (std::size_t rank = 0; rank < comms_.size(); ++rank) call(rank, type, count);
    check(ncclGroupEnd());
  }

 private:
  std::vector<ncclComm_t> comms_;
  std::vector<double> data_;  // a send and a receive buffer a rank
};

void empty_group(benchmark::State& state) {
  for ([[maybe_unused]] auto _ : state) {
    check(ncclGroupStart());
    check(ncclGroupEnd());
  }
}
BENCHMARK(empty_group);

void lone_call(benchmark::State& state) {
  Ranks ranks(1);
  for ([[maybe_unused]] auto _ : state) ranks.call(0, ncclFloat32, 2);
}
BENCHMARK(lone_call);

void repeated(benchmark::State& state) {
  Ranks ranks(static_cast<std::size_t>(state.range(0)));
  for ([[maybe_unused]] auto _ : state) ranks.call_all(ncclFloat32, 2);
}
BENCHMARK(repeated)->Arg(1)->Arg(2)->Arg(4)->Arg(8);

void alternating(benchmark::State& state) {
  Ranks ranks(static_cast<std::size_t>(state.range(0)));
  bool floats = false;
  for ([[maybe_unused]] auto _ : state) {
    floats = !floats;
    ranks.call_all(floats ? ncclFloat32 : ncclFloat64, floats ? 2 : 1);
  }
}
BENCHMARK(alternating)->Arg(1)->Arg(2)->Arg(4)->Arg(8);

}  // namespace

BENCHMARK_MAIN();
