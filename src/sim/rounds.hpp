// The round in which each message is sent.
#pragma once

#include <cstdint>
#include <vector>

#include "src/ir/match.hpp"
#include "src/ir/schedule.hpp"

namespace tutti::sim {

/// rounds[channel][k]: the round of message k of the channel, if all ranks run their programs in
/// order and every message takes one round. It is the longest chain of messages that its rank has
/// received before. Never decreases along a channel. Messages that are never sent because the
/// schedule deadlocks have round 0.
std::vector<std::vector<std::uint32_t>> count_rounds(const ir::Schedule& schedule,
                                                     const ir::Matching& matching);

}  // namespace tutti::sim
