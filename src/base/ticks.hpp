// The processor's time counter. Reading it takes a few nanoseconds, a tenth of Clock, so even the
// shortest call can be timed.
//
// Its unit is not known in advance. On every processor of the last ten years it runs at one
// constant pace on all CPUs of a machine. Elsewhere its results are wrong. So use it for figures
// that people read, and never for decisions.
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

/// Ticks from one reading to a later one. Another CPU's reading may be slightly earlier; that
/// counts as 0.
constexpr std::uint64_t ticks_between(std::uint64_t from, std::uint64_t to) {
  return to > from ? to - from : 0;
}

/// Converts ticks to seconds by the ticks counted since this object was made. The older the object,
/// the more exact. Value.
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
