// Finds races: two steps of a rank that touch the same memory in no fixed order, at least one of
// them writing.
#pragma once

#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::ir {

/// Only `deps` order steps; program order and messages do not. The schedule must be well-formed.
Status check_races(const Schedule& schedule);

}  // namespace tutti::ir
