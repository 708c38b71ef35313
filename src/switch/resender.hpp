// When a worker sends a packet again. Value, no clock: times are passed in.
//
// A chunk is sent again when its time is over, or when it has been overtaken: when results of
// several chunks that were sent after it have come, and it was sent at least a round trip ago. Each
// result begins the time anew (RFC 6298, 5.3): while results come, a chunk that has not been
// overtaken is in a queue, perhaps a longer one than the timeout.
//
// The time from a contribution to its result is a round trip if the contribution was the last of
// all. Otherwise it contains a wait for other workers and is an upper bound. Such waits must not
// make the timeout longer: they contain the timeouts of others, so all would grow together. Only a
// time that is less than the usual round trip counts.
//
// The timeout follows measured round trips (RFC 6298), of chunks that were sent once only (Karn's
// rule). It doubles for a chunk each time that the chunk's time is over and no result of any chunk
// has come since, up to a limit. If results come, packets are lost, but nobody is overloaded or
// late. If round trips have become longer than the timeout, all chunks are sent again, and no round
// trip can be measured. So a window of such chunks in a row doubles the timeout for all.
#pragma once

#include <algorithm>
#include <array>
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
  explicit RoundTrips(const TimeoutLimits& limits) : limits_(limits), timeout_(limits.first) {}
  void sample(Nanos round_trip);
  /// No round trip could be measured for long.
  void double_timeout() { timeout_ = std::min(2 * timeout_, limits_.greatest); }
  /// Doubled so many times.
  [[nodiscard]] Nanos timeout(unsigned times = 0) const {
    return std::min(timeout_ * (std::int64_t{1} << times), limits_.greatest);
  }
  /// A round trip takes less than this.
  void bound(Nanos time) {
    if (!usual_ || time < *usual_) sample(time);
  }
  /// The usual round trip; nothing before the first sample.
  [[nodiscard]] std::optional<Nanos> usual() const { return usual_; }

 private:
  TimeoutLimits limits_;
  Nanos timeout_;
  std::optional<Nanos> usual_;
  Nanos deviation_{0};
};

/// The packets of a window that wait for results, one for each slot.
class Resender {
 public:
  Resender(std::uint32_t slots, const TimeoutLimits& limits);

  /// The slot's chunk is sent for the first time, or again.
  void sent(std::uint32_t slot, TimePoint now);
  void sent_again(std::uint32_t slot, TimePoint now);
  /// The result is there. `was_last`: the result came as the answer to this worker's contribution.
  void answered(std::uint32_t slot, TimePoint now, bool was_last);

  /// A slot whose chunk should be sent again now.
  [[nodiscard]] std::optional<std::uint32_t> due(TimePoint now) const;
  /// When due() will name one; nothing if no packet waits.
  [[nodiscard]] std::optional<TimePoint> deadline() const;
  [[nodiscard]] bool is_idle() const { return waiting_ == 0; }
  /// Of a chunk that is sent for the first time.
  [[nodiscard]] Nanos timeout() const { return round_trips_.timeout(); }

 private:
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  /// Results of so many chunks sent later mean that a packet is lost, as in TCP.
  static constexpr std::uint64_t kOvertaken = 3;
  /// Chunks with the same timeout are in one list, in the order of their sending. So the first one
  /// of each list is the first whose time is over.
  static constexpr unsigned kLists = 16;

  struct Entry {
    TimePoint at;               ///< of the last sending
    std::uint64_t order = 0;    ///< sendings before it
    std::uint64_t results = 0;  ///< results before it
    bool is_repeated = false;
    unsigned expired = 0;  ///< how often its timeout doubled: its list
    std::uint32_t before = kNobody;
    std::uint32_t after = kNobody;
  };
  struct List {
    std::uint32_t oldest = kNobody;
    std::uint32_t newest = kNobody;
  };
  void append(std::uint32_t slot, TimePoint now);
  void remove(std::uint32_t slot);
  /// When the chunk's time is over, if it is not overtaken.
  [[nodiscard]] TimePoint end_of(const Entry& entry) const {
    return std::max(entry.at, result_at_) + round_trips_.timeout(entry.expired);
  }
  [[nodiscard]] TimePoint deadline_of(const Entry& entry) const;
  /// Of the chunks that wait, the one whose time is over first; kNobody if none waits.
  [[nodiscard]] std::uint32_t next() const;

  std::vector<Entry> entries_;
  std::array<List, kLists> lists_;
  RoundTrips round_trips_;
  std::uint32_t waiting_ = 0;
  std::uint64_t sendings_ = 0;
  std::uint64_t results_ = 0;
  TimePoint result_at_;               ///< the last one
  std::uint64_t answered_order_ = 0;  ///< greatest of the chunks that have a result
  std::uint32_t unmeasured_ = 0;      ///< results in a row of chunks that were sent again
};

}  // namespace tutti::in_network
