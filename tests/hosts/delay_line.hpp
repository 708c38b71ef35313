// One direction of a link with latency: packets in the order in which they came, each with the time
// at which it is due at the other end.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "src/base/clock.hpp"

namespace tutti::testing {

/// What the devices of a relayed link carry at most, in bytes; jumbo frames, as data centres have.
constexpr std::size_t kLargestPacket = 9000;

/// How a packet travels: it waits until those before it have left, leaves at the rate, and arrives
/// the latency after its last byte has left.
struct Wire {
  Nanos latency{};         ///< one way
  double ns_per_byte = 0;  ///< of the sender's end; 0: no limit
};

/// A queue of a fixed number of packets, without allocations once made. Does not look at a clock
/// itself. For one thread.
class DelayLine {
 public:
  /// `capacity`: packets under way at most, at least 1.
  DelayLine(const Wire& wire, std::size_t capacity) : wire_(wire), slots_(capacity) {}

  [[nodiscard]] bool full() const { return count_ == slots_.size(); }
  [[nodiscard]] bool empty() const { return count_ == 0; }

  /// Where the next packet is to be put before accept(). Not to be called when full.
  [[nodiscard]] std::span<std::byte> free_slot() {
    return slots_[(first_ + count_) % slots_.size()].data;
  }
  /// The packet in free_slot() has that many bytes and set out at `now`, which is no earlier than
  /// that of the packet before.
  void accept(std::size_t bytes, TimePoint now) {
    const Nanos sending(static_cast<Nanos::rep>(wire_.ns_per_byte * static_cast<double>(bytes)));
    free_from_ = std::max(free_from_, now) + sending;
    Slot& slot = slots_[(first_ + count_) % slots_.size()];
    slot.size = bytes;
    slot.due = free_from_ + wire_.latency;
    ++count_;
  }

  /// When the next packet is due; nothing while none is under way.
  [[nodiscard]] std::optional<TimePoint> next_due() const {
    if (empty()) return std::nullopt;
    return slots_[first_].due;
  }
  /// The next packet, until pop(). Neither is to be called when empty.
  [[nodiscard]] std::span<const std::byte> front() const {
    return std::span(slots_[first_].data).first(slots_[first_].size);
  }
  void pop() {
    first_ = (first_ + 1) % slots_.size();
    --count_;
  }

 private:
  struct Slot {
    TimePoint due{};
    std::size_t size = 0;
    std::array<std::byte, kLargestPacket> data{};
  };

  Wire wire_;
  std::vector<Slot> slots_;  // a ring of `count_` packets from `first_` on
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  TimePoint free_from_{};  // when all packets that came have left
};

}  // namespace tutti::testing
