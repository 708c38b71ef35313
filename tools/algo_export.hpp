// Schedules as JSON, for `tutti algo show`.
#pragma once

#include <string>

#include "src/ir/schedule.hpp"

namespace tutti::tools {

/// Every field of the schedule under its own name.
std::string to_json(const ir::Schedule& schedule);

}  // namespace tutti::tools
