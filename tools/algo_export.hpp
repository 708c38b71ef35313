// Schedules as pictures, JSON and XML, for `tutti algo show`.
#pragma once

#include <string>

#include "src/ir/schedule.hpp"
#include "src/ir/verify.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {

/// SVG: a lane per rank, a column per round, an arrow per message (those of one pair and round are
/// one arrow), coloured by its first chunk. A plus at an arrow's end: what arrives is added there.
/// `proof` must be verify(schedule)'s.
std::string to_svg(const ir::Schedule& schedule, const ir::Proof& proof);

/// Every field of the schedule under its own name.
std::string to_json(const ir::Schedule& schedule);

/// The XML that MSCCL and RCCL run; docs/formats.md says how. kInvalidArgument when it has no words
/// for something in the schedule. The algorithm's name must be an identifier, as ours are.
Result<std::string> to_msccl_xml(const ir::Schedule& schedule);

}  // namespace tutti::tools
