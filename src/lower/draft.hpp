// One rank's program while it is being fused. Used by lower.cpp only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "src/ir/group_operations.hpp"
#include "src/ir/schedule.hpp"
#include "src/ir/verify.hpp"
#include "src/lower/lower.hpp"
#include "src/lower/messages.hpp"
#include "src/lower/program.hpp"

namespace tutti::lower {

/// An op under construction. Its kSlot sources hold an index into `messages` instead of a slot,
/// until all ranks are drafted and the linker knows the slots.
struct DraftOp {
  Op op;
  bool dead = false;
  std::uint32_t round = 0;
  std::vector<MessageId> messages;           ///< the messages that its kSlot sources refer to
  std::optional<MessageId> sends, receives;  ///< kSend, kRecv
  std::uint32_t operation = 0;               ///< kGroup: the how-manieth of its group
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

/// Fuses the steps of one rank.
Draft draft_rank(const ir::Schedule& schedule, const ir::Proof& proof, const Placement& placement,
                 const LowerOptions& options, const Messages& messages,
                 const ir::GroupOperations& operations, Rank rank);

}  // namespace tutti::lower
