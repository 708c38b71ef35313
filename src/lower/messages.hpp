// The messages of a schedule, with both ends of each. Used inside this folder.
#pragma once

#include <compare>
#include <cstdint>
#include <map>

#include "src/ir/schedule.hpp"

namespace tutti::lower {

/// Message k from source to destination on a lane.
struct MessageId {
  Rank source = 0;
  Rank destination = 0;
  Lane lane = 0;
  std::uint32_t number = 0;
  friend auto operator<=>(const MessageId&, const MessageId&) = default;
};

/// Both ends of a message.
struct Message {
  ir::ChunkSet source, destination;
  bool from_input = false;  ///< the source is input that its rank has not written
  bool stored = false;      ///< kDirect: the sender stores it to the receiver's output (movers.hpp)
};
using Messages = std::map<MessageId, Message>;

Messages messages_of(const ir::Schedule& schedule);

}  // namespace tutti::lower
