// One hop between two ranks: the time from a store into shared memory by one thread until another
// one, which waits for it, has it.
//
// Each side has a rank's block in a shared heap and uses it as the executor does: bytes go into the
// entry or its note, then the sequence number into the entry. An iteration is a round trip, the
// column `hop` half of it; the argument is the number of bytes beside the word.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include "perf/pin.hpp"
#include "src/base/shared_heap.hpp"
#include "src/base/waiter.hpp"
#include "src/exec/layout.hpp"

namespace tutti {
namespace {

using exec::RankBlock;

/// Where `bytes` of the entry lie.
std::byte* payload(RankBlock& block, std::uint64_t sequence, std::size_t bytes) {
  const std::size_t entry = sequence % exec::kEntries;
  return bytes <= exec::kInlineBytes ? block.entries[entry].payload : block.notes[entry];
}

void publish(RankBlock& own, std::uint64_t sequence, std::span<const std::byte> data) {
  std::memcpy(payload(own, sequence, data.size()), data.data(), data.size());
  own.entries[sequence % exec::kEntries].sequence.store(sequence, std::memory_order_release);
}

/// False when `stop` came first.
bool receive(RankBlock& peer, std::uint64_t sequence, std::span<std::byte> data,
             const std::stop_token& stop) {
  static const WaitPolicy policy =
      WaitPolicy::for_ranks_on_host(2, static_cast<int>(std::thread::hardware_concurrency()));
  const auto& word = peer.entries[sequence % exec::kEntries].sequence;
  for (std::uint32_t polls = 0; word.load(std::memory_order_acquire) != sequence; ++polls) {
    if (stop.stop_requested()) return false;
    wait_once(policy, polls, {});
  }
  std::memcpy(data.data(), payload(peer, sequence, data.size()), data.size());
  return true;
}

void answer_all(RankBlock& own, RankBlock& peer, std::size_t bytes, const std::stop_token& stop) {
  pin_to(1);
  std::vector<std::byte> data(bytes);
  for (std::uint64_t sequence = 1; receive(peer, sequence, data, stop); ++sequence) {
    publish(own, sequence, data);
  }
}

void hop(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const auto heap = SharedHeap::create(4 * sizeof(RankBlock));
  if (!heap) return state.SkipWithError(heap.error().what.c_str());
  const auto here = (*heap)->allocate(sizeof(RankBlock));
  const auto there = (*heap)->allocate(sizeof(RankBlock));
  if (!here || !there) return state.SkipWithError("no room for two blocks");
  auto& own = *reinterpret_cast<RankBlock*>(here->data());
  auto& peer = *reinterpret_cast<RankBlock*>(there->data());

  pin_to(0);
  const std::jthread other(
      [&, bytes](const std::stop_token& stop) { answer_all(peer, own, bytes, stop); });
  std::vector<std::byte> data(bytes);
  std::uint64_t sequence = 0;
  for ([[maybe_unused]] auto _ : state) {
    publish(own, ++sequence, data);
    receive(peer, sequence, data, {});
  }
  using benchmark::Counter;
  state.counters["hop"] = Counter(2, Counter::kIsIterationInvariantRate | Counter::kInvert);
}

// Nothing, an element, all that an entry's line holds, the least and the most of a note.
BENCHMARK(hop)->UseRealTime()->Arg(0)->Arg(8)->Arg(48)->Arg(64)->Arg(1152);
static_assert(exec::kInlineBytes == 48 && exec::kNoteBytes == 1152);

}  // namespace
}  // namespace tutti

BENCHMARK_MAIN();
