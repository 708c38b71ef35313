// What each rank of a schedule sends, for byte counters. The protocol makes no difference: a peer
// that reads this rank's memory directly counts like one that gets a message.
#pragma once

#include <cstdint>
#include <vector>

#include "src/ir/schedule.hpp"
#include "src/lower/program.hpp"

namespace tutti::lower {

/// What each rank sends, in chunk order.
std::vector<std::vector<SentChunks>> sent_chunks(const ir::Schedule& schedule,
                                                 const Placement& placement);

}  // namespace tutti::lower
