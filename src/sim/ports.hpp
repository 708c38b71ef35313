// The k-port model: a rank sends to at most k other ranks at a time, and receives from at most k.
//
// Papers that count rounds use this model, most with k = 1. A message holds a port of its sender
// and one of its receiver from its start until it has arrived. Messages on several lanes between
// the same two ranks share their ports, like the parts of one message in the papers.
//
// A rank sends its messages in the order of their turns, and receives them in that order: it takes
// no message of a later round while one of an earlier round has not started. Otherwise an early
// message would hold a port that an urgent message needs. No message waits forever, because it only
// waits for messages of earlier turns.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/sim/traffic.hpp"

namespace tutti::sim {

/// One thread at a time.
class Ports {
 public:
  /// `limit`: ports of a rank in each direction, at least 1. The traffic must outlive this object.
  Ports(std::int32_t ranks, std::uint32_t limit, const Traffic& traffic);

  /// A message that waits for ports. Within a turn, the lowest rank's messages come first.
  struct Waiting {
    ChannelId channel = 0;
    PairId pair = 0;
    std::uint32_t turn = 0;
  };
  /// At most one message of a channel waits at a time.
  void wait(const Waiting& message);

  /// A message between this pair has arrived.
  void close(PairId pair);

  /// Assigns ports to waiting messages that can have them, and appends their channels. Call it once
  /// per time, after all events of that time; then their order does not affect the choice.
  void grant(std::vector<ChannelId>& granted);

 private:
  /// A rank as sender, or as receiver.
  struct Side {
    std::vector<std::uint32_t> turns;  // of all its messages, ascending
    std::size_t started = 0;           // number of these that have started
    std::uint32_t used = 0;            // ports in use
    std::vector<Waiting> waiting;
    bool changed = false;
    [[nodiscard]] bool is_its_turn(std::uint32_t turn) const { return turns[started] == turn; }
  };
  void mark_changed(Side& side);
  [[nodiscard]] bool can_open(const Waiting& message) const;
  void open(const Waiting& message);
  [[nodiscard]] std::size_t sender(PairId pair) const {
    return static_cast<std::size_t>(pairs_[pair].source);
  }
  [[nodiscard]] std::size_t receiver(PairId pair) const {
    return static_cast<std::size_t>(pairs_[pair].destination);
  }

  std::uint32_t limit_;
  std::span<const Pair> pairs_;
  std::vector<std::uint32_t> in_flight_;  // messages of each pair
  std::vector<Side> senders_, receivers_;
  std::vector<Side*> changed_;  // where a waiting message may have become free to start
  std::vector<Waiting> candidates_;
};

}  // namespace tutti::sim
