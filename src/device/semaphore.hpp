// Waits for a word that another rank stores. An abort word and a deadline end every wait.
#pragma once

#include <cstdint>

#if !defined(__CUDACC__)
#include <chrono>
#include <thread>
#endif

#include "src/base/device_macros.hpp"
#include "src/device/atomics.hpp"

namespace tutti::device {

/// How a wait ended.
enum class Wake : std::uint32_t { kReached, kAborted, kTimedOut };

/// How long to wait. Plain data.
struct Patience {
  std::uint32_t* abort_word = nullptr;  ///< not 0: give up. It may lie in host memory
  std::uint64_t timeout_ns = 0;         ///< per wait; 0: none
};

/// Nanoseconds since an unspecified moment.
TUTTI_DEVICE inline std::uint64_t now_ns() {
#if defined(__CUDA_ARCH__)
  std::uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
#elif defined(__CUDACC__)
  return 0;
#else
  using std::chrono::nanoseconds, std::chrono::steady_clock;
  const nanoseconds time = steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(time.count());
#endif
}

/// Called between two polls. Host threads share processors, so this lets others run. A thread that
/// has waited long sleeps, because one that only yields keeps competing with all busy threads.
TUTTI_DEVICE inline void relax([[maybe_unused]] std::uint32_t polls) {
#if !defined(__CUDACC__)
  constexpr std::uint32_t kYields = 16;
  if (polls <= kYields)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(20));
#endif
}

/// Polls between two checks of the clock and of the abort word, which may be far away.
inline constexpr std::uint32_t kPollsPerLook = 256;

/// Polls `ready()` until it is true, aborted or timed out.
template <class Ready>
TUTTI_DEVICE inline Wake wait_until(const Patience& patience, const Ready& ready) {
  std::uint64_t deadline = 0;  // 0: not looked at the clock yet
  for (std::uint32_t polls = 1; !ready(); ++polls) {
    relax(polls);
    if (polls % kPollsPerLook != 0) continue;
    if (load_acquire(patience.abort_word) != 0) return Wake::kAborted;
    if (patience.timeout_ns == 0) continue;
    const std::uint64_t now = now_ns();
    if (deadline == 0) deadline = now + patience.timeout_ns;
    if (now >= deadline) return Wake::kTimedOut;
  }
  return Wake::kReached;
}

/// Waits until `*word` >= `value`. Then everything that its writer stored before signal() is
/// visible.
TUTTI_DEVICE inline Wake wait(std::uint64_t* word, std::uint64_t value, const Patience& patience) {
  return wait_until(patience, [&] { return load_acquire(word) >= value; });
}

/// Makes what this thread did before (and, after a barrier, its block) visible to those that wait
/// for `value`.
TUTTI_DEVICE inline void signal(std::uint64_t* word, std::uint64_t value) {
  store_release(word, value);
}

}  // namespace tutti::device
