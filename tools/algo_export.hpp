// Schedules as JSON and XML, for `tutti algo show`.
#pragma once

#include <string>

#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {

/// Every field of the schedule under its own name.
std::string to_json(const ir::Schedule& schedule);

/// The XML that MSCCL and RCCL run; docs/formats.md says how. kInvalidArgument when it has no words
/// for something in the schedule. The algorithm's name must be an identifier, as ours are.
Result<std::string> to_msccl_xml(const ir::Schedule& schedule);

}  // namespace tutti::tools
