// TUTTI_CHECK=1: checks a call's buffers beyond null pointers.
#pragma once

#include <cstdint>

#include "src/base/memory_map.hpp"
#include "src/comm/call.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::capi {

/// kInvalidArgument unless `rank`, of `size`, can read all that `call` sends and write all that it
/// receives, and the buffers do not overlap, unless they are in place. `call` has passed
/// check_call, and its site is set.
Status check_buffers(const Call& call, Rank rank, std::int32_t size, const MemoryMap& memory);

}  // namespace tutti::capi
