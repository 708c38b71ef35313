#include "src/base/waiter.hpp"

#include <climits>
#include <ctime>

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tutti {
namespace {

void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Futexes are 32 bits wide: the half of a 64-bit counter that changes with every increment.
const std::uint32_t* low_half(const std::atomic<std::uint64_t>& word) {
  static_assert(sizeof(std::atomic<std::uint64_t>) == 8);
  const auto* halves = reinterpret_cast<const std::uint32_t*>(&word);
  return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? halves : halves + 1;
}

void sleep_on(const WaitWord& word, Nanos longest) {
  word.sleepers->fetch_add(1, std::memory_order_seq_cst);
  if (word.word->load(std::memory_order_seq_cst) == word.seen) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(longest);
    const timespec limit{seconds.count(), (longest - seconds).count()};
    syscall(SYS_futex, low_half(*word.word), FUTEX_WAIT, static_cast<std::uint32_t>(word.seen),
            &limit, nullptr, 0);
  }
  word.sleepers->fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace

WaitPolicy WaitPolicy::for_ranks_on_host(int ranks, int cpus) {
  WaitPolicy policy;
  if (ranks > cpus) {
    policy.spins = 0;
    policy.yields = 20000;
  }
  return policy;
}

void wait_once(const WaitPolicy& policy, std::uint32_t polls, const WaitWord& word) {
  if (polls < policy.spins) return pause_cpu();
  if (word.word == nullptr || polls < policy.spins + policy.yields) {
    sched_yield();
    return;
  }
  sleep_on(word, policy.longest_sleep);
}

void wake_sleepers(const std::atomic<std::uint64_t>& word,
                   const std::atomic<std::uint32_t>& sleepers) {
  if (sleepers.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  syscall(SYS_futex, low_half(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace tutti
