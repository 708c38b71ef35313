// Time: one monotonic clock, and deadlines as points on it.
#pragma once

#include <chrono>

namespace tutti {

using Clock = std::chrono::steady_clock;
using Nanos = std::chrono::nanoseconds;
using TimePoint = Clock::time_point;

/// A point in time after which a wait gives up. `Deadline::never()` waits for as long as the peer
/// lives.
class Deadline {
 public:
  static Deadline never() { return Deadline(TimePoint::max()); }
  static Deadline after(Nanos duration) { return Deadline(Clock::now() + duration); }
  static Deadline at(TimePoint when) { return Deadline(when); }

  [[nodiscard]] bool is_never() const { return when_ == TimePoint::max(); }
  [[nodiscard]] bool passed() const { return !is_never() && Clock::now() >= when_; }
  /// Time left, never negative; Nanos::max() for never().
  [[nodiscard]] Nanos left() const {
    if (is_never()) return Nanos::max();
    const auto now = Clock::now();
    return now >= when_ ? Nanos::zero() : std::chrono::duration_cast<Nanos>(when_ - now);
  }
  /// For poll(2): milliseconds left rounded up, at most `cap`.
  [[nodiscard]] int poll_ms(int cap) const {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left()).count();
    return ms > cap ? cap : static_cast<int>(ms);
  }
  [[nodiscard]] TimePoint when() const { return when_; }

 private:
  explicit Deadline(TimePoint when) : when_(when) {}
  TimePoint when_;
};

}  // namespace tutti
