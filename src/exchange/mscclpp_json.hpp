// Execution plans of MSCCL++, in JSON.
//
// Words of that format: a gpu's *thread blocks* run their operations in order and all at once. They
// put data into the buffers of other gpus, get data from there, and order themselves by signals and
// waits on *channels*, by barriers inside a gpu and, with packets, by the arrival of the data.
//
// All of that is run here on chunk numbers. A put or a get becomes a send and a receive at the
// moment at which it happens; what signals and barriers order is then ordered by what steps read
// and write.
//
// Source: microsoft/mscclpp (src/core/executor/execution_plan.cc).
#pragma once

#include <string_view>

#include "src/exchange/foreign.hpp"

namespace tutti::exchange {

/// One schedule, for the placement that the plan is for. Errors name the path to the operation that
/// is wrong. kUnsupported for operations that have no counterpart here: those on switches
/// (multimem), pipelines, semaphores, and operations that several thread blocks share.
Result<Schedules> read_mscclpp_json(std::string_view text);

}  // namespace tutti::exchange
