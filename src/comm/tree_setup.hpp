// How the ranks of a communicator come to trees of the network, or all do without.
#pragma once

#include <span>

#include "src/base/clock.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/comm/runtime.hpp"
#include "src/exec/team.hpp"
#include "src/ir/algorithm.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Collective over the ranks, all of which have an Aggregation. Adds the trees to `team`. The
/// algorithm whose groups they serve, the same on all ranks; null: some rank has none, and the log
/// says why. Errors: the control plane fails.
Result<const ir::Algorithm*> join_trees(Runtime& runtime, Bootstrap& bootstrap, exec::Team& team,
                                        Deadline deadline);

}  // namespace tutti
