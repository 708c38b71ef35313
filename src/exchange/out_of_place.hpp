// From a schedule for calls in place to the one that ranks out of place run beside it.
#pragma once

#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::exchange {

/// Each rank whose buffers would overlap first copies to its output what lies there in place, and
/// goes on in the output: the messages are the same. `in_place` must have been verified, and the
/// result has been. kUnsupported where one operand spans chunks of the input that overlap the
/// output and others that do not.
Result<ir::Schedule> out_of_place(const ir::Schedule& in_place);

}  // namespace tutti::exchange
