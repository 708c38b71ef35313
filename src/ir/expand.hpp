// Makes a schedule do without the network's help: its groups become messages.
#pragma once

#include "src/ir/group_operations.hpp"
#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::ir {

/// Each operation of a group becomes a one-shot: members send what they contribute straight to the
/// members that want it, which add in the order of the group's ranks. Each group has a lane of its
/// own. The result has no groups, and needs a proof of its own. kInvalidArgument where the
/// operations of `schedule` do not fit together; it must be well-formed otherwise.
Result<Schedule> expand_groups(const Schedule& schedule);

}  // namespace tutti::ir
