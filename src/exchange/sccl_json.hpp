// Schedules in the JSON of SCCL, as its solver writes them.
//
// Words of that format: data has *addresses*, and a rank holds at most one value per address. All
// sends of a step happen at once: each takes the value that its source held at the start of the
// step. If the destination already holds other contributions at that address, arriving data is
// added to them.
//
// Source: Cai et al., "Synthesizing optimal collective algorithms" (PPoPP 2021), and the files that
// its successor writes (microsoft/msccl-tools, msccl/serialization.py).
#pragma once

#include <string_view>

#include "src/exchange/foreign.hpp"

namespace tutti::exchange {

/// Schedules for out of place and, except for an all-to-all, in place. Errors name the path to the
/// wrong value. kUnsupported for user-defined collectives.
Result<Schedules> read_sccl_json(std::string_view text);

}  // namespace tutti::exchange
