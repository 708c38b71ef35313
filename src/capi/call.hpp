// From the arguments of an nccl* collective to a Call, checked in NCCL's order.
#pragma once

#include <vector>

#include "src/capi/comm.hpp"
#include "src/capi/raw_call.hpp"
#include "tutti/error.hpp"

namespace tutti::capi {

/// Checks root or peer, type, operator, size and pointers, in this order, and resolves the
/// operator's scalar. Pointers count only where this rank uses them and count is not 0.
/// Fills `call` where it lies: copying it right after so many small stores would wait for them,
/// 10 ns of a small collective's 100.
Status check_call(const Comm& comm, const RawCall& raw, Call& call);

/// The same for a collective with blocks of different sizes, of which this rank's own has raw.count
/// elements.
Status check_uneven_call(const Comm& comm, const RawCall& raw, const RawBlocks& blocks, Call& call);

/// The sends and receives of an all-to-all with blocks of different sizes: to and from each rank,
/// this one included. raw.count plays no part.
Result<std::vector<Call>> check_all_to_all(const Comm& comm, const RawCall& raw,
                                           const RawBlocks& sent, const RawBlocks& received);

}  // namespace tutti::capi
