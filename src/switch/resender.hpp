// When a worker sends a packet again. Value, no clock: times are passed in.
//
// A chunk is sent again when its time is over, or when it has been overtaken: when results of
// several chunks that were sent after it have come, and it was sent at least a round trip ago. The
// timeout follows measured round trips (RFC 6298), of chunks that were sent once only (Karn's
// rule). It doubles while repeated packets have no result, up to a limit. A round trip is the time
// from a contribution to the result, so it contains the wait for other workers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/clock.hpp"

namespace tutti::in_network {

struct TimeoutLimits {
  Nanos first = std::chrono::milliseconds(10);  ///< before the first round trip is known
  Nanos least = std::chrono::milliseconds(1);
  Nanos greatest = std::chrono::milliseconds(100);
};

/// The timeout of RFC 6298.
class RoundTrips {
 public:
  explicit RoundTrips(const TimeoutLimits& limits) : limits_(limits), base_(limits.first) {}
  void sample(Nanos round_trip);
  /// A packet that was sent again `times` times has no result yet: doubles the timeout, once for
  /// each number of times. The next sample ends that.
  void back_off(std::uint32_t times);
  [[nodiscard]] Nanos timeout() const;
  /// The usual round trip; nothing before the first sample.
  [[nodiscard]] std::optional<Nanos> usual() const { return usual_; }

 private:
  TimeoutLimits limits_;
  Nanos base_;
  std::optional<Nanos> usual_;
  Nanos deviation_{0};
  std::uint32_t doublings_ = 0;
};

/// The packets of a window that wait for results, one for each slot, in the order of their sending.
class Resender {
 public:
  Resender(std::uint32_t slots, const TimeoutLimits& limits);

  /// The slot's chunk is sent for the first time, or again.
  void sent(std::uint32_t slot, TimePoint now);
  void sent_again(std::uint32_t slot, TimePoint now);
  /// The result is there.
  void answered(std::uint32_t slot, TimePoint now);

  /// The slot whose chunk should be sent again now.
  [[nodiscard]] std::optional<std::uint32_t> due(TimePoint now) const;
  /// When due() will name one; nothing if no packet waits.
  [[nodiscard]] std::optional<TimePoint> deadline() const;
  [[nodiscard]] bool is_idle() const { return oldest_ == kNobody; }
  [[nodiscard]] Nanos timeout() const { return round_trips_.timeout(); }

 private:
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  /// Results of so many chunks sent later mean that a packet is lost, as in TCP.
  static constexpr std::uint64_t kOvertaken = 3;

  struct Entry {
    TimePoint at;               ///< of the last sending
    std::uint64_t order = 0;    ///< sendings before it
    std::uint32_t times = 0;    ///< how often it was sent again
    std::uint32_t expired = 0;  ///< how often of these because its time was over
    std::uint32_t before = kNobody;
    std::uint32_t after = kNobody;
  };
  void append(std::uint32_t slot, TimePoint now);
  void remove(std::uint32_t slot);
  [[nodiscard]] bool is_overtaken(const Entry& entry) const {
    return answered_order_ >= entry.order + kOvertaken;
  }

  std::vector<Entry> entries_;
  RoundTrips round_trips_;
  std::uint32_t oldest_ = kNobody;
  std::uint32_t newest_ = kNobody;
  std::uint64_t sendings_ = 0;
  std::uint64_t answered_order_ = 0;  ///< greatest of the chunks that have a result
};

}  // namespace tutti::in_network
