#include "src/capi/answer.hpp"

#include "src/capi/errors.hpp"
#include "src/capi/process.hpp"

namespace tutti::capi {

ncclResult_t refuse(const char* function, const ncclComm* handle, const Error& error) {
  Group& group = this_thread_group();
  if (group.open()) group.fail(error);
  if (check_handle(handle)) handle->comm->note(function, error);
  return report(function, error);
}

Status check_out(const void* pointer, const char* name) {
  if (pointer != nullptr) return ok_status();
  return make_error(Code::kInvalidArgument, "{} is NULL", name);
}

Status check_ready(const ncclComm* handle) {
  TUTTI_TRY(check_handle(handle));
  const Comm& comm = *handle->comm;
  if (comm.background.load(std::memory_order_acquire) == 0) [[likely]] {
    if (comm.phase.load(std::memory_order_acquire) != Comm::Phase::kStarting) return ok_status();
    TUTTI_TRY(comm.health());
    return make_error(Code::kInvalidArgument,
                      "the communicator is made when the group ends: call ncclGroupEnd first");
  }
  return make_error(Code::kInvalidArgument,
                    "the communicator's last call is still in progress: poll "
                    "ncclCommGetAsyncError until it is not ncclInProgress");
}

Status check_usable(const ncclComm* handle) {
  TUTTI_TRY(check_handle(handle));
  switch (handle->comm->phase.load(std::memory_order_acquire)) {
    case Comm::Phase::kRevoked:
      return make_error(Code::kInvalidUsage,
                        "the communicator was revoked: shrink or split it, or destroy it");
    case Comm::Phase::kFinalized:
      return make_error(Code::kInvalidArgument,
                        "the communicator was finalized: only ncclCommDestroy is left");
    case Comm::Phase::kStarting:
    case Comm::Phase::kReady:
      break;
  }
  return check_ready(handle);
}

}  // namespace tutti::capi
