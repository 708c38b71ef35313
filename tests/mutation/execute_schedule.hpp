// Executes a schedule on numbers, in the worst order that its rules allow. It is the plain
// reference for the verifier: slow, and without any logic in common with verify().
//
// A step may start as soon as its `deps` are complete, wherever it stands in the program. Messages
// of a channel start in order. At most `fifo_depth` of them are between their send and the end of
// their receive. A started step touches its elements one by one, in any order, at any time until it
// completes, while other steps run. It reads and writes a computed element at two different
// moments. The operations of a group start in order on each member. A member contributes its
// elements one by one, and gets each result at any time after all members have contributed to it; a
// member that gets nothing does not wait for the others. Fresh memory holds garbage, inputs are
// random, and encoded data looks nothing like plain data. Chunks differ in length where they may.
#pragma once

#include <cstdint>

#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::ir {

enum class Ordering : std::uint8_t {
  kProgramOrder,  ///< each rank runs one step after the other; ranks interleave at random
  kUniform,       ///< any possible action, all equally likely
  kPriorities,    ///< steps have random priorities; the highest that can act does
};
inline constexpr int kOrderings = 3;

struct ExecuteOptions {
  Ordering ordering = Ordering::kUniform;
  std::uint64_t seed = 0;
  std::uint32_t fifo_depth = 1;
};

/// Checks that every rank's output is exactly what the collective defines, and that its input is
/// untouched where no output aliases it. The error says what went wrong: a stuck execution, an
/// operand outside memory, lengths that differ, an unreceived message, a wrong element. Accepts any
/// schedule with at least one rank and one chunk per block, correct or not.
Status execute(const Schedule& schedule, const ExecuteOptions& options);

}  // namespace tutti::ir
