// Runs a schedule on symbolic values: which chunk of data a memory cell holds, whose contributions
// are in it, whether it is encoded.
#pragma once

#include "src/ir/match.hpp"
#include "src/ir/schedule.hpp"
#include "src/ir/verify.hpp"
#include "tutti/error.hpp"

namespace tutti::ir {

/// Proves that the programs finish with bounded FIFOs, that every operand is defined and fits, and
/// that the outputs are what the collective promises. The schedule must be well-formed, matched by
/// `matching` and free of races (else one replay would not speak for every timing).
Result<Proof> replay(const Schedule& schedule, const Matching& matching,
                     const VerifyOptions& options);

}  // namespace tutti::ir
