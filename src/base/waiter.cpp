#include "src/base/waiter.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <ctime>
#include <span>

#include <linux/futex.h>
#include <linux/time_types.h>
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

/// Between announcing itself to the writers of some words and withdrawing.
class Sleeper {
 public:
  explicit Sleeper(std::span<const WaitWord> words) : words_(words) {
    for (const WaitWord& word : words_) word.sleepers->fetch_add(1, std::memory_order_seq_cst);
  }
  ~Sleeper() {
    for (const WaitWord& word : words_) word.sleepers->fetch_sub(1, std::memory_order_relaxed);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

 private:
  std::span<const WaitWord> words_;
};

bool has_changed(const WaitWord& word) {
  return word.word->load(std::memory_order_seq_cst) != word.seen;
}

template <class Time>
Time split(Nanos nanos) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(nanos);
  Time time{};
  time.tv_sec = seconds.count();
  time.tv_nsec = (nanos - seconds).count();
  return time;
}

void sleep_on(const WaitWord& word, Nanos longest) {
  const Sleeper announced({&word, 1});
  if (has_changed(word)) return;
  const auto limit = split<timespec>(longest);
  syscall(SYS_futex, low_half(*word.word), FUTEX_WAIT, static_cast<std::uint32_t>(word.seen),
          &limit, nullptr, 0);
}

/// False where the kernel cannot wait for several words.
bool sleep_on_several(std::span<const WaitWord> words, Nanos longest) {
#if defined(FUTEX_WAITV_MAX) && defined(SYS_futex_waitv)
  words = words.first(std::min<std::size_t>(words.size(), FUTEX_WAITV_MAX));
  const Sleeper announced(words);
  if (std::ranges::any_of(words, has_changed)) return true;
  std::array<futex_waitv, FUTEX_WAITV_MAX> waiters{};
  for (std::size_t i = 0; i < words.size(); ++i) {
    waiters[i].val = static_cast<std::uint32_t>(words[i].seen);
    waiters[i].uaddr = reinterpret_cast<std::uintptr_t>(low_half(*words[i].word));
    waiters[i].flags = FUTEX_32;
  }
  // Not a duration here but a point on the monotonic clock, which is what Clock is.
  const auto limit = split<__kernel_timespec>((Clock::now() + longest).time_since_epoch());
  return syscall(SYS_futex_waitv, waiters.data(), words.size(), 0, &limit, CLOCK_MONOTONIC) >= 0 ||
         (errno != ENOSYS && errno != EPERM);  // the latter where a sandbox forbids it
#else
  (void)words, (void)longest;
  return false;
#endif
}

void sleep_on_any(WaitSet& waits) {
  constexpr Nanos kUnheard = std::chrono::milliseconds(1);  // where words cannot end the sleep
  if (std::ranges::any_of(waits.words, has_changed)) return;
  const Nanos longest = waits.longest_sleep;
  if (waits.descriptors.empty() && waits.words.size() == 1)
    return sleep_on(waits.words.front(), longest);
  if (waits.descriptors.empty() && waits.words.size() > 1) {
    if (!sleep_on_several(waits.words, longest))
      sleep_on(waits.words.front(), std::min(longest, kUnheard));
    return;
  }
  const auto limit = split<timespec>(waits.words.empty() ? longest : std::min(longest, kUnheard));
  ppoll(waits.descriptors.data(), waits.descriptors.size(), &limit, nullptr);
}

}  // namespace

WaitPolicy WaitPolicy::for_ranks_on_host(int ranks, int cpus) {
  WaitPolicy policy;
  if (ranks > cpus) policy.spins = 0;
  return policy;
}

WaitPolicy WaitPolicy::with_computing_callers(int ranks, int cpus) {
  WaitPolicy policy;
  if (2 * ranks > cpus) {
    policy.spins = 100;  // about what it costs to sleep and be woken
    policy.yields = 0;
  }
  return policy;
}

void wait_once(const WaitPolicy& policy, std::uint32_t polls, const WaitWord& word) {
  if (polls < policy.spins) return pause_cpu();
  if (word.word == nullptr || policy.phase(polls) == WaitPhase::kYield) {
    sched_yield();
    return;
  }
  sleep_on(word, policy.longest_sleep);
}

void WaitSet::clear() {
  phase = WaitPhase::kSleep;
  words.clear();
  descriptors.clear();
}

void wait_once(WaitSet& waits) {
  switch (waits.phase) {
    case WaitPhase::kSpin:
      return pause_cpu();
    case WaitPhase::kYield:
      sched_yield();
      return;
    case WaitPhase::kSleep:
      return sleep_on_any(waits);
  }
}

void wake_sleepers(const std::atomic<std::uint64_t>& word,
                   const std::atomic<std::uint32_t>& sleepers) {
  if (sleepers.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  syscall(SYS_futex, low_half(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace tutti
