// Proves a step program correct by replay across ranks: the same guarantees as ir::verify, after
// fusion, staging and pipelining, where the protocol's own mistakes would live.
//
// The form is checked first (well_formed.hpp). The replay then runs three consecutive calls
// (staging alternates between two regions) of one slice, of two, and of enough to use every
// instance of slots and scratch again, symbolically: each piece of memory of each slice holds a
// chunk number and a set of contributing ranks. It proves
//   - progress: no wait is for a position that the waited rank cannot reach (deadlock), even if a
//     send completes only when its receive is posted;
//   - no race across ranks: every read of a slot happens after the write it wants and before the
//     next write of that place, by vector clocks that follow waits and program order, for any
//     timing. Messages order nothing: those of no elements are never sent;
//   - slots, scratch instances and transfers are not reused too early, within a call and from one
//     call to the next;
//   - lengths, codings and scaling: no piece is taken for longer than it is, encoded or scaled when
//     it is not;
//   - the postcondition of the collective, element range by element range.
#pragma once

#include <cstdint>

#include "src/lower/program.hpp"
#include "tutti/error.hpp"

namespace tutti::lower {

struct CheckOptions {
  std::uint32_t slices = 3;  ///< at least
  std::uint32_t calls = 3;
  bool scales_input = false;  ///< as in LowerOptions
};

/// Any Lowered whatever ends in ok or in kInternal, which names rank, op and what is wrong.
Status check(const Lowered& lowered, const Placement& placement, const CheckOptions& options = {});

}  // namespace tutti::lower
