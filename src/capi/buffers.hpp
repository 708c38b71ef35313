// TUTTI_CHECK=1: a call's buffers, looked at more closely than a null pointer needs.
#pragma once

#include <cstdint>

#include "src/base/memory_map.hpp"
#include "src/comm/call.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::capi {

/// kInvalidArgument unless `rank`, of `size`, can read all that `call` sends from and write all
/// that it receives into, and the two do not overlap but where that is in place. `call` has passed
/// check_call, and its site is set.
Status check_buffers(const Call& call, Rank rank, std::int32_t size, const MemoryMap& memory);

}  // namespace tutti::capi
