// Execution plans of MSCCL++, in JSON.
//
// Words of that format: a gpu's *thread blocks* run concurrently, each its operations in order.
// They put data into buffers of other gpus and get data from there. Signals and waits on *channels*
// order them, and barriers within a gpu. With packets, the arrival of data orders them, too.
//
// The reader runs the plan on chunk numbers. A put or a get becomes a send and a receive at the
// moment when it happens. What the steps read and write then expresses the order of signals and
// barriers.
//
// Source: microsoft/mscclpp (src/core/executor/execution_plan.cc).
#pragma once

#include <string_view>

#include "src/exchange/foreign.hpp"

namespace tutti::exchange {

/// One schedule, for the plan's own placement of buffers. Errors name the path to the wrong
/// operation. kUnsupported for operations that Tutti lacks: switch operations (multimem),
/// pipelines, semaphores, and operations that several thread blocks share.
Result<Schedules> read_mscclpp_json(std::string_view text);

}  // namespace tutti::exchange
