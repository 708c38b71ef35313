// What every entry point does with the outcome of its body.
#pragma once

#include <exception>

#include "nccl.h"
#include "src/base/result.hpp"
#include "src/capi/comm.hpp"
#include "tutti/error.hpp"

namespace tutti::capi {

/// Keeps `error` where it will be asked for (the open group, the communicator when `handle` is a
/// live one, the thread) and returns its code.
ncclResult_t refuse(const char* function, const ncclComm* handle, const Error& error);

/// Runs `body` (-> Result<ncclResult_t>) and translates its outcome; nothing is thrown into C.
template <class Body>
ncclResult_t answer(const char* function, const ncclComm* handle, Body&& body) noexcept {
  try {
    const Result<ncclResult_t> outcome = body();
    if (outcome) [[likely]] {
      return *outcome;
    }
    return refuse(function, handle, outcome.error());
  } catch (const std::exception& thrown) {
    return refuse(function, handle, make_error(Code::kUnavailable, "{}", thrown.what()));
  }
}

/// kInvalidArgument when `pointer` is null; `name` is the parameter's.
Status check_out(const void* pointer, const char* name);

/// Whether a communicator can take calls: its handle is live, no background call is under way, it
/// is neither revoked nor finalized, and its init succeeded.
Status check_usable(const ncclComm* handle);

/// The same for getters, split and shrink: finalized or revoked will do.
Status check_ready(const ncclComm* handle);

}  // namespace tutti::capi
