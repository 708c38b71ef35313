// Runs a schedule on symbolic values. A memory cell's value says which chunk it is, which ranks
// contributed, its format, and how often it was rounded.
#pragma once

#include "src/ir/group_operations.hpp"
#include "src/ir/match.hpp"
#include "src/ir/schedule.hpp"
#include "src/ir/verify.hpp"
#include "tutti/error.hpp"

namespace tutti::ir {

/// Proves that the programs finish with bounded FIFOs, that every operand is defined and fits, and
/// that the outputs are what the collective defines. The schedule must be well-formed, matched by
/// `matching` and `operations`, and free of races; otherwise one replay would not cover every
/// timing.
Result<Proof> replay(const Schedule& schedule, const Matching& matching,
                     const GroupOperations& operations, const VerifyOptions& options);

}  // namespace tutti::ir
