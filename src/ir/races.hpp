// Finds races: two steps of a rank that touch the same memory in no fixed order, at least one of
// them writing.
#pragma once

#include "src/ir/group_operations.hpp"
#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::ir {

/// Only `deps` order steps; program order and messages do not. Steps do not write what they read,
/// but that a group step may replace a chunk by what becomes of it. The schedule must be
/// well-formed.
Status check_races(const Schedule& schedule, const Membership& membership,
                   const GroupOperations& operations);

}  // namespace tutti::ir
