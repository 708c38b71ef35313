// From the arguments of an nccl* collective to a Call, checked in NCCL's order.
#pragma once

#include "src/capi/comm.hpp"
#include "src/capi/raw_call.hpp"
#include "tutti/error.hpp"

namespace tutti::capi {

/// Checks root or peer, type, operator, size and pointers, in this order, and resolves the
/// operator's scalar. Pointers count only where this rank uses them and count is not 0.
/// Fills `call` where it lies: copying it right after so many small stores would wait for them,
/// 10 ns of a small collective's 100.
Status check_call(const Comm& comm, const RawCall& raw, Call& call);

}  // namespace tutti::capi
