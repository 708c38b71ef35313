// Executes a schedule on numbers, in the worst order that its rules allow: the plain reference that
// the verifier's judgement is held against. Slow, and shares no logic with verify().
//
// A step may start as soon as its `deps` are complete, whatever its place in the program; messages
// of a channel start in order and at most `fifo_depth` are between their send and the end of their
// receive. A step that has started touches its elements one by one, in any order, at any time
// until it completes, while others run; a computed element is read and written at two moments.
// Fresh memory holds garbage, inputs are random, encoded data looks nothing like plain data. Chunks
// differ in length where they may.
#pragma once

#include <cstdint>

#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::ir {

enum class Ordering : std::uint8_t {
  kProgramOrder,  ///< each rank one step after the other; ranks interleave at random
  kUniform,       ///< any action that is possible, with equal chances
  kPriorities,    ///< every step has a random priority; the highest that can act does
};
inline constexpr int kOrderings = 3;

struct InterpretOptions {
  Ordering ordering = Ordering::kUniform;
  std::uint64_t seed = 0;
  std::uint32_t fifo_depth = 1;
};

/// Whether every rank's output is exactly what the collective says, and its input is untouched
/// where the output does not alias it. The error tells what went wrong: a stuck execution, an
/// operand outside memory, lengths that differ, a message left over, a wrong element. Accepts
/// any schedule of at least one rank and one chunk per block, correct or not.
Status interpret(const Schedule& schedule, const InterpretOptions& options);

}  // namespace tutti::ir
