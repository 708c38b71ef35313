// Proves a schedule correct by symbolic replay, or names the step that is wrong.
//
// Each chunk of memory holds a symbolic value: which chunk of data it is, which ranks contributed,
// its format, and how often it was rounded. verify() replays all programs and proves:
//   1. well-formed: operands lie inside their spaces, unused fields hold defaults, deps point
//      backward, peers exist;
//   2. every send matches a receive of as many chunks of the same sizes; no message is left over;
//      The parts of each group operation fit together, and groups are at most `trees`;
//   3. no deadlock with FIFOs of `fifo_depth` messages per (source, destination, lane), when each
//      rank runs in program order and group operations are rendezvous: each member waits there
//      until all have come. In-order processes with bounded FIFOs and rendezvous are deterministic,
//      so one replay covers every timing. Executions that run lanes concurrently, or that let a
//      member go on before the others have come, only have more freedom. Each group has a tree of
//      its own, so it never waits for a tree, and who comes first cannot matter;
//   4. no race: if two steps of a rank touch the same chunk and one of them writes, `deps` order
//      them. Chunks that alias in place count as one;
//   5. no operand is read before it is defined, no contribution is added twice, different chunks
//      are never mixed, and values are read in the format in which they are;
//   6. the postcondition: each output chunk of each rank holds exactly what the collective defines.
//      The input is intact, because no step writes it where the output does not alias it.
//
// A contribution set holds (rank, chunk) pairs. A valid sum only joins the same chunk of several
// ranks, so it is stored as one chunk and a set of ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/ir/algorithm.hpp"
#include "src/ir/recipe.hpp"
#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::ir {

struct VerifyOptions {
  std::uint32_t fifo_depth = 1;
  std::size_t trees = kMostGroups;  ///< that the network has for this job
};

inline constexpr std::uint32_t kMostLossyCounted = 31;

/// What the replay found out. Lowering relies on it.
struct Proof {
  /// completes[rank][step]: this reduction yields the sum over all ranks, so kAvg divides here.
  /// With one rank no step completes, because nothing is added.
  std::vector<std::vector<bool>> completes;
  /// round[rank][step]: number of messages on the longest chain of `deps` and messages that leads
  /// to this step. A kRecv counts its own message, and a group step one for the operation.
  /// Independent messages between the same ranks share a round.
  std::vector<std::vector<std::uint32_t>> round;
  std::uint32_t rounds = 0;           ///< longest chain of messages
  std::uint64_t max_chunks_sent = 0;  ///< most chunks sent by any rank, also to the network
  std::uint64_t steps = 0;            ///< over all ranks
  /// Most conversions into formats on the way from an input to an output; kMostLossyCounted: so
  /// many or more.
  std::uint32_t lossy_steps = 0;
  /// Whether all ranks that get a result get the same bits: they round and add the same values in
  /// the same order. Known only of schedules with formats; sums of others may depend on the rank.
  std::optional<bool> same_bits;
  /// recipes[rank][output chunk]: what lowered programs are held to. Empty where same_bits is.
  std::vector<std::vector<Recipe>> recipes;
};

/// Any schedule, even a hostile one, yields a proof or kInvalidArgument. Memory and time are
/// bounded: 2^25 chunks over all ranks, 2^27 named by all steps.
Result<Proof> verify(const Schedule& schedule, const VerifyOptions& options = {});

/// A step in words, for messages: "rank 2 step 7: send in[3..5] to 4".
std::string describe(const Schedule& schedule, Rank rank, StepId step);

}  // namespace tutti::ir
