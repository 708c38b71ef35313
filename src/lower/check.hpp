// Proves a lowered program correct by replay across ranks. It gives the guarantees of ir::verify
// after fusion, staging and pipelining, where the protocol's own mistakes would be.
//
// These proofs together cover any number of slices:
//   form      (well_formed.hpp) every index refers to something that exists;
//   direct    with ProgramProtocol::kDirect, any place that is written is touched by one rank only;
//   pace      (pace.hpp) no deadlock, and messages pair alike for any number of slices;
//   replay    symbolic, of three consecutive calls, since staging alternates between two regions.
//             Each piece of memory of each slice holds a chunk number and a set of contributing
//             ranks.
// The replay proves
//   - no race across ranks: every read of a slot happens after the write it needs and before the
//     next write of that place, for any timing. Vector clocks follow waits and program order.
//     Messages order nothing, because empty messages are never sent;
//   - slots, scratch instances and transfers are not reused too early, within a call or between
//     calls;
//   - lengths, formats and scaling: no piece is used beyond its length, read in another format than
//     it has, or taken for scaled when it is not. If blocks may differ in size, chunks of two
//     blocks never count as equally long;
//   - the postcondition of the collective, for each element range;
//   - recipes: with formats, each result is rounded and added up as the schedule's was.
// Why this covers every number of slices: two ops use the same place in the same slice, or in
// slices that are a multiple of some depth apart. If the slices are one depth apart, all uses by
// the earlier slice come before those by the later one. If they are several depths apart, the same
// holds, because the place was written for each slice between. More slices before and after do not
// remove what orders two ops. So replays with 1 slice, and with depth + 1 slices for each depth
// that occurs, are enough.
#pragma once

#include <cstdint>

#include "src/ir/recipe.hpp"
#include "src/lower/program.hpp"
#include "tutti/error.hpp"

namespace tutti::lower {

struct CheckOptions {
  std::uint32_t calls = 3;
  bool scales_input = false;  ///< as in LowerOptions
  /// Whether blocks may have any sizes (src/ir/blocks.hpp), in collectives that
  /// ir::may_be_uneven().
  bool uneven_blocks = false;
  /// Of the schedule's proof, which says how results come about; null: any way will do.
  const std::vector<std::vector<ir::Recipe>>* recipes = nullptr;
};

/// Any Lowered yields ok or kInternal. The error names rank, op and the mistake.
Status check(const Lowered& lowered, const Placement& placement, const CheckOptions& options = {});

}  // namespace tutti::lower
