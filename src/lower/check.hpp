// Proves a step program correct by replay across ranks: the same guarantees as ir::verify, after
// fusion, staging and pipelining, where the protocol's own mistakes would live.
//
// The replay runs `slices` slices of `calls` consecutive calls (three: staging alternates between
// two regions), symbolically: each piece of memory of each slice holds a chunk number and a set of
// contributing ranks. It proves
//   - progress: no wait is for a position that the waited rank cannot reach (deadlock);
//   - no race across ranks: every read of a slot (or of user memory by a transfer) happens after
//   the
//     write it wants and before the next write of that place, by vector clocks that follow waits,
//     messages and program order, for any timing;
//   - slots, scratch instances and transfers are not reused too early, within a call and from one
//     call to the next;
//   - the postcondition of the collective, element range by element range.
#pragma once

#include <cstdint>

#include "src/lower/program.hpp"
#include "tutti/error.hpp"

namespace tutti::lower {

struct CheckOptions {
  std::uint32_t slices = 3;
  std::uint32_t calls = 3;
};

Status check(const Lowered& lowered, const Placement& placement, const CheckOptions& options = {});

}  // namespace tutti::lower
