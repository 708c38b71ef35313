// Proves a schedule correct by symbolic replay, or names the step that is wrong.
//
// Each chunk of memory holds a symbolic value: which chunk of data it is, which ranks have
// contributed, whether it is encoded. verify() replays all programs and proves:
//   1. well-formed: operands inside their spaces, unused fields default, deps backward, peers that
//      exist;
//   2. every send is matched by a receive with as many chunks of the same sizes, and none is left;
//   3. no deadlock with FIFOs of `fifo_depth` messages per (source, destination, lane), each rank
//      executing in program order. In-order processes with bounded FIFOs are deterministic, so one
//      replay covers every timing, and any execution that runs lanes concurrently has only more
//      freedom;
//   4. no race: two steps of a rank that touch the same chunk, at least one writing, are ordered by
//      `deps`; in-place aliasing folds input and output chunks into one;
//   5. no operand is read before it is defined; contributions are never added twice; different
//      chunks are never mixed; encoded data is decoded before it is reduced;
//   6. the postcondition: each output chunk of each rank holds exactly what the collective says;
//      the input is intact, since no step writes it where the output does not alias it.
//
// Contribution sets hold (rank, chunk) pairs: a valid sum only ever joins the same chunk of several
// ranks, so the pair set is stored as one chunk and a set of ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "src/ir/algorithm.hpp"
#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::ir {

struct VerifyOptions {
  std::uint32_t fifo_depth = 1;
};

/// What the replay learned; lowering relies on it.
struct Proof {
  /// completes[rank][step]: this kReduce yields the sum over all ranks (kAvg divides here). For one
  /// rank nothing ever completes: there is nothing to add.
  std::vector<std::vector<bool>> completes;
  /// round[rank][step]: number of messages on the longest chain of `deps` and messages that leads
  /// to this step, the step's own message included for kRecv. Independent messages between the same
  /// ranks share a round.
  std::vector<std::vector<std::uint32_t>> round;
  std::uint32_t rounds = 0;           ///< longest chain of messages
  std::uint64_t max_chunks_sent = 0;  ///< most chunks any rank sends
  std::uint64_t steps = 0;            ///< over all ranks
};

/// Any schedule, hostile ones included, ends in a proof or in kInvalidArgument; memory is bounded
/// (2^25 chunks over all ranks, 2^27 named by all steps), and so is time.
Result<Proof> verify(const Schedule& schedule, const VerifyOptions& options = {});

/// Names a step in messages: "rank 2 step 7: send in[3..5] to 4".
std::string describe(const Schedule& schedule, Rank rank, StepId step);

}  // namespace tutti::ir
