// One rank's program while it is being fused. Used by lower.cpp only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "src/ir/schedule.hpp"
#include "src/ir/verify.hpp"
#include "src/lower/lower.hpp"
#include "src/lower/program.hpp"

namespace tutti::lower {

/// Message k from source to destination on a lane.
struct MessageId {
  Rank source = 0;
  Rank destination = 0;
  Lane lane = 0;
  std::uint32_t number = 0;
  friend auto operator<=>(const MessageId&, const MessageId&) = default;
};

/// An op under construction. Its kSlot sources hold an index into `messages` instead of a slot,
/// until all ranks are drafted and the linker knows the slots.
struct DraftOp {
  Op op;
  bool dead = false;
  std::uint32_t round = 0;
  std::vector<MessageId> messages;           ///< the messages that its kSlot sources refer to
  std::optional<MessageId> sends, receives;  ///< kSend, kRecv
};

/// Where peers that map this rank's memory read a message.
struct Publication {
  std::uint32_t slot = 0;
  std::uint32_t op = 0;  ///< index into Draft::ops
};

struct Draft {
  std::vector<DraftOp> ops;
  std::vector<Slot> slots;
  std::map<MessageId, Publication> publications;
  std::map<MessageId, std::uint32_t> sends;  ///< to unmapped peers: index into ops
};

/// Both ends of a message.
struct Message {
  ir::ChunkSet source, destination;
  bool from_input = false;  ///< the source is input that its rank has not written
  bool stored = false;      ///< kDirect: the sender stores it to the receiver's output (movers.hpp)
};
using Messages = std::map<MessageId, Message>;

Messages messages_of(const ir::Schedule& schedule);

/// Fuses the steps of one rank.
Draft draft_rank(const ir::Schedule& schedule, const ir::Proof& proof, const Placement& placement,
                 const LowerOptions& options, const Messages& messages, Rank rank);

/// Identifies a rank's memory, such that in-place aliases are equal: (kind, piece).
struct PlaceKey {
  ProgramMemory memory = ProgramMemory::kInput;
  std::uint32_t piece = 0;
  friend auto operator<=>(const PlaceKey&, const PlaceKey&) = default;
};
PlaceKey place_of(const ir::Request& request, std::uint32_t chunks_per_block, Rank rank,
                  ProgramMemory memory, std::uint32_t piece);

}  // namespace tutti::lower
