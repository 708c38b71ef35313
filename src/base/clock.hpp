// Time: one monotonic clock, and deadlines on it, which may be cancelled early.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace tutti {

using Clock = std::chrono::steady_clock;
using Nanos = std::chrono::nanoseconds;
using TimePoint = Clock::time_point;

/// Seconds since 1970, for what outlives the process. Unlike Clock, it may be set.
inline std::int64_t seconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

/// Ends waits before their deadline. Any thread may raise it; it stays raised. It must outlive the
/// deadlines that refer to it.
class Cancellation {
 public:
  /// Counts as raised when one of its parents is raised, too.
  explicit Cancellation(const Cancellation* one = nullptr, const Cancellation* other = nullptr)
      : one_(one), other_(other) {}
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  void raise() { raised_.store(true, std::memory_order_release); }
  [[nodiscard]] bool raised() const {
    return raised_.load(std::memory_order_acquire) || (one_ != nullptr && one_->raised()) ||
           (other_ != nullptr && other_->raised());
  }

 private:
  std::atomic<bool> raised_{false};
  const Cancellation* const one_;
  const Cancellation* const other_;
};

/// When a wait gives up: at a point in time or when a Cancellation is raised, whichever comes
/// first. `Deadline::never()` waits as long as the peer lives. Value.
class Deadline {
 public:
  static Deadline never() { return Deadline(TimePoint::max(), nullptr); }
  static Deadline after(Nanos duration) { return Deadline(Clock::now() + duration, nullptr); }
  static Deadline at(TimePoint when) { return Deadline(when, nullptr); }

  /// The same time, but ended early by `cancellation`, which replaces any earlier one.
  [[nodiscard]] Deadline unless(const Cancellation& cancellation) const {
    return Deadline(when_, &cancellation);
  }
  /// This deadline, or `duration` from now if that is earlier.
  [[nodiscard]] Deadline within(Nanos duration) const {
    return Deadline(std::min(when_, Clock::now() + duration), cancellation_);
  }

  /// Ended by the same cancellation alone.
  [[nodiscard]] Deadline without_end() const { return Deadline(TimePoint::max(), cancellation_); }

  [[nodiscard]] bool is_never() const { return when_ == TimePoint::max(); }
  [[nodiscard]] bool passed() const {
    return cancelled() || (!is_never() && Clock::now() >= when_);
  }
  /// Time left, never negative; Nanos::max() for never().
  [[nodiscard]] Nanos left() const {
    if (cancelled()) return Nanos::zero();
    if (is_never()) return Nanos::max();
    const auto now = Clock::now();
    return now >= when_ ? Nanos::zero() : std::chrono::duration_cast<Nanos>(when_ - now);
  }
  /// Longest single sleep, at most `cap`. 20 ms if cancellable, because raising a cancellation
  /// wakes nobody.
  [[nodiscard]] Nanos nap(Nanos cap = std::chrono::hours(1)) const {
    if (cancellation_ != nullptr) cap = std::min<Nanos>(cap, kLookAgain);
    return std::min(cap, left());
  }
  /// nap() in milliseconds, rounded up, for poll(2). When a sleep ends before the deadline, sleep
  /// again.
  [[nodiscard]] int poll_ms(int cap) const {
    const auto ms =
        std::chrono::ceil<std::chrono::milliseconds>(nap(std::chrono::milliseconds(cap)));
    return static_cast<int>(ms.count());
  }
  [[nodiscard]] TimePoint when() const { return when_; }
  [[nodiscard]] const Cancellation* cancellation() const { return cancellation_; }
  [[nodiscard]] bool cancelled() const {
    return cancellation_ != nullptr && cancellation_->raised();
  }

 private:
  static constexpr auto kLookAgain = std::chrono::milliseconds(20);

  Deadline(TimePoint when, const Cancellation* cancellation)
      : when_(when), cancellation_(cancellation) {}

  TimePoint when_;
  const Cancellation* cancellation_;
};

}  // namespace tutti
