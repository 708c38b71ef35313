// The k-port model: a rank sends to at most k other ranks at a time, and receives from at most k.
//
// It is the model of the papers that count rounds (k = 1 in most): a message holds a port of its
// sender and one of its receiver from its start until it has arrived. Messages on several lanes
// between the same two ranks share their ports, as the parts of one message do in the papers.
//
// A rank sends its messages in the order of their turns, and receives them so: it takes none of a
// later round while one of an earlier round is still to start. Without this, a message that is
// early would hold a port which one that others wait for needs. Nothing waits for ever, since a
// message waits for messages of earlier turns alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/sim/traffic.hpp"

namespace tutti::sim {

/// Not safe for use by several threads at once.
class Ports {
 public:
  /// `limit`: ports of a rank in each direction, at least 1. The traffic must outlive this.
  Ports(std::int32_t ranks, std::uint32_t limit, const Traffic& traffic);

  /// A message that waits for ports. Within a turn, those of the lowest rank come first.
  struct Waiting {
    ChannelId channel = 0;
    PairId pair = 0;
    std::uint32_t turn = 0;
  };
  /// A channel waits once at a time.
  void wait(const Waiting& message);

  /// A message between the pair has arrived.
  void close(PairId pair);

  /// Takes ports for those waiting that can have them, and appends their channels. Call once all
  /// that happens at one time has happened, so that the choice does not depend on what came first.
  void grant(std::vector<ChannelId>& granted);

 private:
  /// A rank as sender, or as receiver.
  struct Side {
    std::vector<std::uint32_t> turns;  // of all its messages, ascending
    std::size_t started = 0;           // of these
    std::uint32_t used = 0;            // ports
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
  std::vector<Side*> changed_;  // where a message may have become free to go
  std::vector<Waiting> candidates_;
};

}  // namespace tutti::sim
