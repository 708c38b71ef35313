// Schedules in the JSON of SCCL, whose solver writes them.
//
// Words of that format: data has *addresses*; a rank holds at most one value at an address. In a
// step, all sends happen at once: each takes the value that its source held when the step began.
// What arrives at an address where the destination holds other contributions is added to them.
//
// Source: Cai et al., "Synthesizing optimal collective algorithms" (PPoPP 2021), and the files that
// its successor writes (microsoft/msccl-tools, msccl/serialization.py).
#pragma once

#include <string_view>

#include "src/exchange/foreign.hpp"

namespace tutti::exchange {

/// Schedules for buffers out of place and, but for an all-to-all, in place. Errors name the path to
/// the value that is wrong. kUnsupported for collectives of the user's own.
Result<Schedules> read_sccl_json(std::string_view text);

}  // namespace tutti::exchange
