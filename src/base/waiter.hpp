// How to wait: spin, then yield, then sleep on the word that will change. One policy for the
// library.
//
// Measured on a 2-vCPU virtual machine: one flag hop costs 49 ns spinning, 0.3 us with sched_yield,
// 13 us with a futex across CPUs, and 1.5 us with sched_yield between two ranks of one CPU. So
// ranks that have a CPU each spin for a while; ranks that share CPUs yield almost at once; both
// sleep when nothing has come for some milliseconds. Not sooner: a virtual CPU that has halted may
// need milliseconds to come back, and its peers, who wait for it, would sleep in turn. A worker
// beside a caller that computes sleeps soon where the two share a CPU: what it spins is taken from
// the caller, and a yield may last until the caller's slice is over (milliseconds), whereas a
// thread that was woken comes in the caller's place.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include <poll.h>

#include "src/base/clock.hpp"

namespace tutti {

/// What a fruitless poll is followed by; a wait goes through them in this order.
enum class WaitPhase : std::uint8_t { kSpin, kYield, kSleep };

/// What the rank of a waiting thread does meanwhile on another one.
enum class Beside : std::uint8_t { kNobody, kCaller };

struct WaitPolicy {
  std::uint32_t spins = 2000;    ///< polls with a pause between them
  std::uint32_t yields = 20000;  ///< then polls with sched_yield: 6 ms where a poll is one load
  Nanos longest_sleep = std::chrono::milliseconds(1);

  /// For `ranks` of one host that have `cpus` CPUs together.
  static WaitPolicy for_ranks_on_host(int ranks, int cpus);
  /// For the threads that communicate for those ranks while each has another one that computes.
  static WaitPolicy beside_callers(int ranks, int cpus);

  /// Of fruitless poll number `polls` (0, 1, ...) of a wait.
  [[nodiscard]] WaitPhase phase(std::uint32_t polls) const {
    if (polls < spins) return WaitPhase::kSpin;
    return polls - spins < yields ? WaitPhase::kYield : WaitPhase::kSleep;
  }
};

/// A word in (possibly shared) memory whose change ends a wait, and the flag by which its writer
/// learns that somebody sleeps on it.
struct WaitWord {
  const std::atomic<std::uint64_t>* word = nullptr;  ///< null: nothing to sleep on, yield instead
  std::uint64_t seen = 0;                            ///< sleep only while it still holds this
  std::atomic<std::uint32_t>* sleepers = nullptr;
};

/// One fruitless poll: number `polls` (0, 1, ...) of this wait. Returns after a pause, a yield or a
/// sleep of at most policy.longest_sleep. A writer that misses a sleeper's announcement (the two
/// race) delays it by no more than that.
void wait_once(const WaitPolicy& policy, std::uint32_t polls, const WaitWord& word);

/// What one thread waits for when it waits for several things together. Reused from poll to poll.
struct WaitSet {
  WaitPhase phase = WaitPhase::kSleep;  ///< the earliest of all that take part
  Nanos longest_sleep = std::chrono::milliseconds(1);
  // Looked at by kSleep alone.
  std::vector<WaitWord> words;      ///< none of them null
  std::vector<pollfd> descriptors;  ///< of poll(2), which writes into them

  void clear();
};

/// One fruitless poll of all that take part in `waits`: a pause, a yield, or a sleep that any of
/// the words or descriptors ends. The words alone are slept on where the kernel can wait for
/// several (Linux 5.16); elsewhere, and beside descriptors, a word that changes during a sleep ends
/// it no sooner than the longest one, which is then at most a millisecond.
void wait_once(WaitSet& waits);

/// Writers: after a store to a wait word.
void wake_sleepers(const std::atomic<std::uint64_t>& word,
                   const std::atomic<std::uint32_t>& sleepers);

}  // namespace tutti
