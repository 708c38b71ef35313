// Says whether a schedule and its simulation fit in memory. Checked first, because Linux kills a
// process that takes too much.
#pragma once

#include <cstddef>

#include "src/ir/algorithm.hpp"
#include "src/ir/schedule.hpp"
#include "src/sim/volumes.hpp"
#include "tutti/error.hpp"

namespace tutti::simtool {

/// Steps of all ranks of the schedule that the algorithm would generate. Counted where the ranks
/// are few; otherwise carried on from how the number grows between two smaller groups of ranks that
/// stand to each other likewise. 0 where the algorithm supports none of these.
double estimated_steps(const ir::Algorithm& algorithm, const ir::Request& request);

/// kUnavailable says how much memory the schedule would take, and how much there is.
Status check_memory_to_generate(const ir::Algorithm& algorithm, const ir::Request& request);

/// The same of a simulation of the schedule with messages cut in slices of `slice_bytes`; 0: whole.
Status check_memory_to_simulate(const ir::Schedule& schedule, const sim::Amount& amount,
                                std::size_t slice_bytes);

}  // namespace tutti::simtool
