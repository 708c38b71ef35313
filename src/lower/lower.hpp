// Schedule -> verified lowered program: fusion, slots, stages, waits.
//
// Fusion is generic; no algorithm is known by name:
//   - a receive into scratch from a mapped peer moves nothing: its readers read the peer's slot;
//   - copy and reduce steps into the same chunks become one op with all sources, in step order;
//   - a send of what an op has just written adds a destination to that op: its slot;
//   - sends of the same value to several mapped peers share one slot;
//   - scratch that nobody reads any more is not written; untouched input is not copied.
#pragma once

#include <string>

#include "src/ir/schedule.hpp"
#include "src/ir/verify.hpp"
#include "src/lower/program.hpp"
#include "tutti/error.hpp"

namespace tutti::lower {

struct LowerOptions {
  ProgramProtocol protocol = ProgramProtocol::kStaged;
  std::uint32_t slot_depth = 2;  ///< at least; more if data waits longer for its reader
  /// Input elements are scaled when read (PreMulSum), so messages may not be sent from input
  /// directly.
  bool scales_input = false;
  /// kDirect: whether ranks may store to peers' outputs. If false, they only load from peers'
  /// inputs. The kernel can do that for them if the inputs are not mapped.
  bool stores_to_peers = true;
};

/// Whether `schedule` fits options.protocol:
///   kPublished  all ranks are mapped; one round; every send is from input; no rank goes on with a
///               sum in scratch.
///   kDirect     all ranks are mapped. What is sent is raw input, or goes straight to an output,
///               where the sender may store it; it is not assembled in scratch. No rank goes on
///               with a sum in scratch. No place is written that another rank touches. Peers'
///               inputs need no scaling.
bool can_lower(const ir::Schedule& schedule, const Placement& placement,
               const LowerOptions& options);

/// Whether ranks that run `a` and ranks that run `b` can work together: all that peers see of a
/// rank (publications, messages, stages) is equal. So each rank may decide alone whether it runs in
/// place.
bool interoperable(const Lowered& a, const Lowered& b);

/// `proof` must be verify's for this schedule. kUnsupported unless can_lower(). check() has checked
/// the result, so any other error is a defect of the lowering, never of the caller.
Result<Lowered> lower(const ir::Schedule& schedule, const ir::Proof& proof,
                      const Placement& placement, const LowerOptions& options = {});

/// An op in words, for messages and pictures: "rank 1 op 3 (stage 1): combine out[0] = in[0] + slot
/// 0.2[0]".
std::string describe(const Lowered& lowered, Rank rank, std::uint32_t op);

}  // namespace tutti::lower
