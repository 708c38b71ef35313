// Schedule -> verified step program: fusion, slots, stages, waits.
//
// Fusion, all of it generic (no algorithm is known by name):
//   - a receive into scratch from a mapped peer moves nothing: its readers read the peer's slot;
//   - copy and reduce steps into the same chunks become one pass over all sources, in step order;
//   - a send of what an op has just written becomes another destination of that op (its slot);
//   - sends of the same value to several mapped peers share one slot;
//   - scratch that nobody reads any more is not written; copies of untouched input are not made.
#pragma once

#include <string>

#include "src/ir/schedule.hpp"
#include "src/ir/verify.hpp"
#include "src/lower/program.hpp"
#include "tutti/error.hpp"

namespace tutti::lower {

struct LowerOptions {
  Protocol protocol = Protocol::kStaged;
  std::uint32_t slot_depth = 2;  ///< at least; more where data waits longer for its reader
  /// Input elements are scaled when read (PreMulSum): messages may not leave straight from input.
  bool scales_input = false;
  /// kDirect: ranks may store to outputs of peers. False: all they do is load from peers' inputs,
  /// which the kernel can do for them where those are not mapped.
  bool stores_to_peers = true;
};

/// Whether `schedule` fits options.protocol:
///   kPublished  all ranks mapped, one round, sends from input alone, and no sum in scratch that
///   its
///               rank goes on with;
///   kDirect     all ranks mapped, what is sent is raw input or goes straight to an output (and may
///               be stored there) and is not put together from parts in scratch, no rank goes on
///               with a sum in scratch, no place is written which another rank touches, and peers'
///               inputs need no scaling.
bool can_lower(const ir::Schedule& schedule, const Placement& placement,
               const LowerOptions& options);

/// Whether ranks that run `a` and ranks that run `b` understand each other: everything that a
/// rank's peers can see of it (publications, messages, stages) is equal. It lets each rank decide
/// alone whether its buffers are in place.
bool interoperable(const Lowered& a, const Lowered& b);

/// `proof` must be verify's for this schedule, and can_lower() true, or it is kUnsupported. The
/// result is checked by check() before it is returned, so an error here is a defect of the
/// lowering, never of the caller.
Result<Lowered> lower(const ir::Schedule& schedule, const ir::Proof& proof,
                      const Placement& placement, const LowerOptions& options = {});

/// For messages and pictures: "rank 1 op 3 (stage 1): combine out[0] = in[0] + slot 0.2[0]".
std::string describe(const Lowered& lowered, Rank rank, std::uint32_t op);

}  // namespace tutti::lower
