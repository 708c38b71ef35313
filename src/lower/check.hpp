// Proves a step program correct by replay across ranks: the same guarantees as ir::verify, after
// fusion, staging and pipelining, where the protocol's own mistakes would live.
//
// The proofs, together good for any number of slices:
//   form      (well_formed.hpp) every index has something behind it;
//   direct    with Protocol::kDirect, what anybody writes is touched by one rank alone;
//   pace      (pace.hpp) no deadlock, and messages pair alike however many slices there are;
//   replay    symbolic, of three consecutive calls (staging alternates between two regions): each
//             piece of memory of each slice holds a chunk number and a set of contributing ranks.
// The replay proves
//   - no race across ranks: every read of a slot happens after the write it wants and before the
//     next write of that place, by vector clocks that follow waits and program order, for any
//     timing. Messages order nothing: those of no elements are never sent;
//   - slots, scratch instances and transfers are not reused too early, within a call and from one
//     call to the next;
//   - lengths, codings and scaling: no piece is taken for longer than it is, encoded or scaled when
//     it is not. Where blocks may have different sizes, chunks of two blocks are never as long as
//     each other;
//   - the postcondition of the collective, element range by element range.
// Two ops meet in a place in the same slice, or in slices that are some depths apart. Of slices
// that are one depth apart, all of the earlier one comes first. So it does where they are several
// apart, since the place was written for each between. What orders two ops stays when there are
// more slices before and after, so replays of 1 and of depth + 1 slices, for each depth that
// occurs, speak for every number of slices.
#pragma once

#include <cstdint>

#include "src/lower/program.hpp"
#include "tutti/error.hpp"

namespace tutti::lower {

struct CheckOptions {
  std::uint32_t calls = 3;
  bool scales_input = false;  ///< as in LowerOptions
  /// For blocks of any sizes (src/ir/blocks.hpp): what ir::may_be_uneven().
  bool uneven_blocks = false;
};

/// Any Lowered whatever ends in ok or in kInternal, which names rank, op and what is wrong.
Status check(const Lowered& lowered, const Placement& placement, const CheckOptions& options = {});

}  // namespace tutti::lower
