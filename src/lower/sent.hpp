// What the ranks of a schedule send, for those who count bytes: the protocol that the schedule is
// lowered to makes no difference, so a peer that reads memory where it lies counts as one that gets
// a message.
#pragma once

#include <cstdint>
#include <vector>

#include "src/ir/schedule.hpp"
#include "src/lower/program.hpp"

namespace tutti::lower {

/// What each rank sends, in the order of chunks.
std::vector<std::vector<SentChunks>> sent_chunks(const ir::Schedule& schedule,
                                                 const Placement& placement);

}  // namespace tutti::lower
