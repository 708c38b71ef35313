// Schedules as pictures and as JSON, for `tutti algo show`.
#pragma once

#include <string>

#include "src/ir/schedule.hpp"
#include "src/ir/verify.hpp"

namespace tutti::tools {

/// SVG: a lane per rank, a column per round, an arrow per message (those of one pair and round are
/// one arrow), coloured by its first chunk. A plus at an arrow's end: what arrives is added there.
/// `proof` must be verify(schedule)'s.
std::string to_svg(const ir::Schedule& schedule, const ir::Proof& proof);

/// Every field of the schedule under its own name.
std::string to_json(const ir::Schedule& schedule);

}  // namespace tutti::tools
