// The processor's own counter of time: reading it takes a few nanoseconds, a tenth of what Clock
// takes, so that even the shortest call can be timed.
//
// Its unit is not known in advance. It runs at one pace, the same on all CPUs of a machine, on
// every processor of the last ten years; where it does not, what is counted by it is wrong, so it
// serves figures for people and nothing that a decision rests on.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/base/clock.hpp"

namespace tutti {

inline std::uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  std::uint64_t count = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
#else
  return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
#endif
}

/// From one reading to a later one, which another CPU may show as a little less.
constexpr std::uint64_t ticks_between(std::uint64_t from, std::uint64_t to) {
  return to > from ? to - from : 0;
}

/// What ticks are in seconds, by how many there were since this was made: the longer ago, the more
/// exact. Value.
class TickLength {
 public:
  [[nodiscard]] double seconds(std::uint64_t count) const {
    const std::uint64_t ticks_gone = std::max<std::uint64_t>(1, ticks_between(ticks_, ticks()));
    const std::chrono::duration<double> gone = Clock::now() - since_;
    return gone.count() * (static_cast<double>(count) / static_cast<double>(ticks_gone));
  }

 private:
  TimePoint since_ = Clock::now();
  std::uint64_t ticks_ = ticks();
};

}  // namespace tutti
