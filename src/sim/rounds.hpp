// The round in which each message is sent, and each operation of a group begins.
#pragma once

#include <cstdint>
#include <vector>

#include "src/ir/group_operations.hpp"
#include "src/ir/match.hpp"
#include "src/ir/schedule.hpp"

namespace tutti::sim {

/// If all ranks run their programs in order, and every message and operation takes one round: the
/// longest chain of messages that a rank has received, and operations that it took part in, before.
struct Rounds {
  /// [channel][k]: of message k of the channel. Never decreases along a channel. Messages that are
  /// never sent because the schedule deadlocks have round 0.
  std::vector<std::vector<std::uint32_t>> messages;
  /// [group][k]: of operation k of the group. The same holds.
  std::vector<std::vector<std::uint32_t>> operations;
};

/// `operations`: of the schedule's groups.
Rounds count_rounds(const ir::Schedule& schedule, const ir::Matching& matching,
                    const ir::GroupOperations& operations);

}  // namespace tutti::sim
