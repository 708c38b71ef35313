// A network in simulated time that loses, repeats, delays, damages, invents and misdelivers
// packets, as a seed decides. Node ids are the caller's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <span>
#include <vector>

#include "src/base/clock.hpp"

namespace tutti::in_network {

using NodeId = std::uint32_t;
using SimulatedBytes = std::vector<std::byte>;

/// Chances out of 1000, for each packet.
struct NetworkFaults {
  unsigned loss = 0;
  unsigned copies = 0;      ///< one more packet, after another delay
  unsigned late = 0;        ///< the delay is 100 times as long
  unsigned damage = 0;      ///< bits flip, or the end is cut off
  unsigned replays = 0;     ///< a packet of any time before comes again, sometimes elsewhere
  unsigned inventions = 0;  ///< a packet that nobody sent
  Nanos delay{50'000};
  unsigned spread = 3;  ///< the delay is longer by up to so many times, so the order is random
};

struct Event {
  enum class Kind : std::uint8_t { kPacket, kWake, kRestart };
  TimePoint at{};
  std::uint64_t order = 0;
  Kind kind = Kind::kPacket;
  NodeId to = 0;
  NodeId from = 0;
  std::shared_ptr<const SimulatedBytes> bytes = nullptr;  ///< kPacket
};

class HostileNetwork {
 public:
  HostileNetwork(std::mt19937_64& random, const NetworkFaults& faults)
      : random_(random), faults_(faults) {}

  void send(NodeId from, NodeId to, std::span<const std::byte> bytes);
  /// An event at a time that is not before now().
  void wake(NodeId node, TimePoint when) {
    push({.at = when, .kind = Event::Kind::kWake, .to = node});
  }
  void restart(NodeId node, TimePoint when) {
    push({.at = when, .kind = Event::Kind::kRestart, .to = node});
  }

  /// The next event, in time; nothing if there is none.
  std::optional<Event> next();
  [[nodiscard]] TimePoint now() const { return now_; }
  [[nodiscard]] std::uint64_t events() const { return order_; }

 private:
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };
  [[nodiscard]] bool happens(unsigned chance) { return chance != 0 && random_() % 1000 < chance; }
  void push(Event event);
  void deliver(NodeId from, NodeId to, std::shared_ptr<const SimulatedBytes> bytes);
  void remember(const Event& event);
  [[nodiscard]] SimulatedBytes damaged(SimulatedBytes bytes);
  [[nodiscard]] SimulatedBytes invented(const SimulatedBytes& like);

  std::mt19937_64& random_;
  NetworkFaults faults_;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  std::vector<Event> past_;  ///< some packets of all times, for replays
  std::uint64_t sent_ = 0;
  std::uint64_t order_ = 0;
  TimePoint now_;
};

}  // namespace tutti::in_network
