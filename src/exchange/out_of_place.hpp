// Makes an out-of-place schedule from an in-place one, such that both kinds of ranks can run
// together.
#pragma once

#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::exchange {

/// Each rank whose buffers would overlap first copies its input to the overlapping part of the
/// output, then works in the output. So the messages stay the same. `in_place` must be verified;
/// the result is verified. kUnsupported when one operand spans input chunks that overlap the output
/// and others that do not.
Result<ir::Schedule> out_of_place(const ir::Schedule& in_place);

}  // namespace tutti::exchange
