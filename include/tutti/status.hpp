// For the C++ wrappers: converts the C API's result codes to Result.
#pragma once

#include "tutti/error.hpp"
#include "tutti/tutti.h"

namespace tutti {

/// The Code that corresponds to a result code.
inline Code code_of(ncclResult_t result) {
  switch (result) {
    case ncclInvalidArgument:
      return Code::kInvalidArgument;
    case ncclInvalidUsage:
      return Code::kInvalidUsage;
    case ncclUnhandledCudaError:
      return Code::kDevice;
    case ncclSystemError:
      return Code::kUnavailable;
    case ncclRemoteError:
      return Code::kPeerFailed;
    default:
      return Code::kInternal;
  }
}

/// The error behind `result`, with its text. `comm` may be NULL.
inline Error last_error(ncclResult_t result, ncclComm_t comm = nullptr) {
  Error error{code_of(result), tuttiNcclGetLastError(nullptr)};
  if (comm != nullptr) (void)tuttiCommFailedRank(comm, &error.peer);
  return error;
}

inline Status to_status(ncclResult_t result, ncclComm_t comm = nullptr) {
  if (result == ncclSuccess) return ok_status();
  return last_error(result, comm);
}

}  // namespace tutti
