// The messages of a schedule: sender, receiver, links and order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/ir/match.hpp"
#include "src/ir/schedule.hpp"
#include "src/sim/fabric.hpp"
#include "src/sim/task_graph.hpp"
#include "src/sim/time.hpp"
#include "tutti/error.hpp"

namespace tutti::sim {

using PairId = std::uint32_t;     ///< index into Traffic::pairs()
using MessageId = std::uint32_t;  ///< index into Traffic::messages()
using ir::ChannelId;              ///< index into Traffic::channels()

/// Two ranks that exchange messages, in one direction.
struct Pair {
  Rank source = kNoRank;
  Rank destination = kNoRank;
  MessageCosts costs;
};

/// One lane of a pair. Its messages follow each other in the order of their ids: by turn, then by
/// step.
struct Channel {
  PairId pair = 0;
  std::vector<LinkId> path = {};
  Time latency = 0;  ///< of the whole path
  MessageId first = 0;
  MessageId end = 0;  ///< one past the last
};

/// What one send passes to one receive in one slice.
struct Message {
  ChannelId channel = 0;
  ir::StepId send = 0;
  ir::StepId receive = 0;
  std::uint32_t slice = 0;
  /// Its round (from src/sim/rounds.hpp, unless given) plus its slice. If all ranks run at the same
  /// pace, messages with the same turn are sent at the same time.
  std::uint32_t turn = 0;
};

/// Immutable.
class Traffic {
 public:
  using Rounds = std::vector<std::vector<std::uint32_t>>;

  /// Pairs sends with receives. `rounds`, by rank and step, is ir::Proof::round, or empty to count
  /// rounds here. kInvalidArgument for a send or receive without a partner, and if the fabric has
  /// no path between two ranks.
  static Result<Traffic> plan(const ir::Schedule& schedule, Fabric& fabric, const TaskGraph& graph,
                              const Rounds& rounds = {});

  [[nodiscard]] std::span<const Pair> pairs() const { return pairs_; }
  [[nodiscard]] std::span<const Channel> channels() const { return channels_; }
  [[nodiscard]] std::span<const Message> messages() const { return messages_; }

  [[nodiscard]] const Channel& channel_of(const Message& message) const {
    return channels_[message.channel];
  }
  [[nodiscard]] const Pair& pair_of(const Message& message) const {
    return pairs_[channels_[message.channel].pair];
  }
  [[nodiscard]] Task send_of(const Message& message) const {
    return {pair_of(message).source, message.send, message.slice};
  }
  [[nodiscard]] Task receive_of(const Message& message) const {
    return {pair_of(message).destination, message.receive, message.slice};
  }
  /// The message of a send or a receive. `step_number` is TaskGraph's.
  [[nodiscard]] MessageId message_of(std::uint32_t step_number, std::uint32_t slice) const {
    return order_[first_of_[step_number] + slice];
  }

 private:
  Status join(const ir::Matching& matching, Fabric& fabric);
  /// `rounds` by channel and message.
  void line_up(const ir::Matching& matching, const Rounds& rounds, const TaskGraph& graph);

  std::vector<Pair> pairs_;
  std::vector<Channel> channels_;
  std::vector<Message> messages_;
  std::vector<std::uint32_t> first_of_;  // per send and receive: index of its slices in order_
  std::vector<MessageId> order_;
};

}  // namespace tutti::sim
