// Schedules as JSON, for `tutti algo show`.
#pragma once

#include <string>
#include <string_view>

#include "src/ir/schedule.hpp"

namespace tutti::tools {

/// Every field of the schedule under its own name. For other programs: nothing here reads it.
std::string to_json(const ir::Schedule& schedule);
/// Whether a text is what to_json() writes.
bool is_written_json(std::string_view text);

}  // namespace tutti::tools
