// From the arguments of an nccl* collective to a Call, checked in NCCL's order.
#pragma once

#include "nccl.h"
#include "src/capi/comm.hpp"
#include "src/comm/communicator.hpp"
#include "tutti/error.hpp"

namespace tutti::capi {

/// The arguments of any collective or message, as they came: nothing is trusted.
struct RawCall {
  Collective collective;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  int type = 0;
  int op = ncclSum;
  int root = 0;  ///< or peer
};

/// Checks root or peer, type, operator, size and pointers, in this order, and resolves the
/// operator's scalar. Pointers count only where this rank uses them and count is not 0.
/// Fills `call` where it lies: copying it right after so many small stores would wait for them,
/// 10 ns of a small collective's 100.
Status check_call(const Comm& comm, const RawCall& raw, Call& call);

}  // namespace tutti::capi
