// How to wait: spin, then yield, then sleep on the word that will change. The whole library uses
// this policy.
//
// Measured on a 2-vCPU virtual machine: passing a flag costs 49 ns spinning, 0.3 us with
// sched_yield, and 13 us with a futex across CPUs. Between two ranks on one CPU it costs 1.5 us
// with sched_yield. So ranks with a CPU each spin for a while, and ranks that share CPUs yield
// almost at once. Both sleep when nothing has come for some milliseconds. Sleeping sooner is worse:
// a halted virtual CPU may need milliseconds to resume, and peers that wait for it would then sleep
// in turn.
//
// A worker thread that shares a CPU with its computing caller sleeps soon. Spinning takes time from
// the caller. A yield may last until the end of the caller's time slice (milliseconds), whereas a
// woken thread preempts the caller.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include <poll.h>

#include "src/base/clock.hpp"

namespace tutti {

/// What follows a poll that found nothing. A wait goes through these phases in order.
enum class WaitPhase : std::uint8_t { kSpin, kYield, kSleep };

/// What the caller does meanwhile, on another thread of the waiting thread's rank.
enum class CallerActivity : std::uint8_t { kWaits, kComputes };

struct WaitPolicy {
  std::uint32_t spins = 2000;    ///< polls with a pause between them
  std::uint32_t yields = 20000;  ///< then polls with sched_yield: 6 ms if a poll is one load
  Nanos longest_sleep = std::chrono::milliseconds(1);

  /// For `ranks` ranks on one host that share `cpus` CPUs.
  static WaitPolicy for_ranks_on_host(int ranks, int cpus);
  /// For the communication threads of those ranks, while another thread of each rank computes.
  static WaitPolicy with_computing_callers(int ranks, int cpus);

  /// The phase after fruitless poll number `polls` (0, 1, ...) of a wait.
  [[nodiscard]] WaitPhase phase(std::uint32_t polls) const {
    if (polls < spins) return WaitPhase::kSpin;
    return polls - spins < yields ? WaitPhase::kYield : WaitPhase::kSleep;
  }
};

/// A word in (possibly shared) memory whose change ends a wait, and the counter that tells its
/// writer about sleepers.
struct WaitWord {
  const std::atomic<std::uint64_t>* word = nullptr;  ///< null: nothing to sleep on, yield instead
  std::uint64_t seen = 0;                            ///< sleep only while it still holds this
  std::atomic<std::uint32_t>* sleepers = nullptr;
};

/// Call after each fruitless poll; `polls` counts them from 0 in this wait. Returns after a pause,
/// a yield, or a sleep of at most policy.longest_sleep. A writer may miss a sleeper that is just
/// announcing itself; then the sleep lasts that long.
void wait_once(const WaitPolicy& policy, std::uint32_t polls, const WaitWord& word);

/// What one thread waits for when it waits for several things at once. Reused from poll to poll.
struct WaitSet {
  WaitPhase phase = WaitPhase::kSleep;  ///< the earliest phase of all participants
  Nanos longest_sleep = std::chrono::milliseconds(1);
  // Used by kSleep only.
  std::vector<WaitWord> words;      ///< none of them null
  std::vector<pollfd> descriptors;  ///< for poll(2), which writes into them

  void clear();
};

/// Call after a poll in which all participants of `waits` found nothing: pauses, yields or sleeps.
/// A ready descriptor always ends a sleep. A changed word ends it if there are no descriptors, and
/// either only one word or a kernel that can wait for several (Linux 5.16). Otherwise the sleep
/// lasts at most a millisecond.
void wait_once(WaitSet& waits);

/// For writers: call after a store to a wait word.
void wake_sleepers(const std::atomic<std::uint64_t>& word,
                   const std::atomic<std::uint32_t>& sleepers);

}  // namespace tutti
