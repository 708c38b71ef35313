// In which round each message is sent.
#pragma once

#include <cstdint>
#include <vector>

#include "src/ir/match.hpp"
#include "src/ir/schedule.hpp"

namespace tutti::sim {

/// rounds[channel][k]: the round in which the k-th message of the channel is sent when all ranks
/// run their programs in order and every message takes one round: the longest chain of messages
/// that its rank has received before. Never falls along a channel. Messages that a schedule never
/// sends because it deadlocks have round 0.
std::vector<std::vector<std::uint32_t>> count_rounds(const ir::Schedule& schedule,
                                                     const ir::Matching& matching);

}  // namespace tutti::sim
