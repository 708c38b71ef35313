#include "src/capi/answer.hpp"

#include <exception>
#include <new>

#include "src/capi/errors.hpp"
#include "src/capi/process.hpp"

namespace tutti::capi {

Error thrown_error() {
  Error out_of_memory;
  out_of_memory.code = Code::kUnavailable;
  out_of_memory.what = "no memory left";  // fits the string itself: there is none for another text
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return out_of_memory;
  } catch (const std::exception& thrown) {
    return make_error(Code::kUnavailable, "{}", thrown.what());
  } catch (...) {
    return make_error(Code::kInternal, "something was thrown that is no exception");
  }
}

void end_for_all(Comm& comm, const Error& why) noexcept {
  if (comm.phase.load(std::memory_order_acquire) == Comm::Phase::kStarting) return;
  try {
    comm.member->abort(why);
  } catch (...) {  // NOLINT(bugprone-empty-catch): see above
  }
}

void end_and_cancel(Comm& comm, const Error& why) noexcept {
  end_for_all(comm, why);
  if (comm.phase.load(std::memory_order_acquire) == Comm::Phase::kStarting) return;
  try {
    (void)comm.member->poll();  // sees the end, and cancels
  } catch (...) {               // NOLINT(bugprone-empty-catch)
  }
}

ncclResult_t refuse(const char* function, Comm* comm, const Error& error) {
  Group& group = this_thread_group();
  if (group.open()) group.fail(error);
  if (comm != nullptr) comm->note(function, error);
  return report(function, error, comm != nullptr ? comm->who() : "");
}

Status check_live(const ncclComm* handle, const Pin& pin) {
  if (handle == nullptr) return make_error(Code::kInvalidArgument, "the communicator is NULL");
  TUTTI_TRY(check_not_forked());
  if (pin.live()) [[likely]]
    return ok_status();
  return make_error(Code::kInvalidArgument,
                    "{} is not a live communicator: it was destroyed, aborted or never made",
                    static_cast<const void*>(handle));
}

Status check_out(const void* pointer, const char* name) {
  if (pointer != nullptr) return ok_status();
  return make_error(Code::kInvalidArgument, "{} is NULL", name);
}

Status check_made(const Comm& comm) {
  if (comm.phase.load(std::memory_order_acquire) != Comm::Phase::kStarting) return ok_status();
  TUTTI_TRY(comm.health());
  if (comm.background.load(std::memory_order_acquire) > 0) {
    return make_error(Code::kInvalidArgument,
                      "the communicator is still being made: poll ncclCommGetAsyncError until it "
                      "is not ncclInProgress");
  }
  return make_error(Code::kInvalidArgument,
                    "the communicator is made when the group ends: call ncclGroupEnd first");
}

Status check_ready(const Comm& comm) {
  if (comm.background.load(std::memory_order_acquire) == 0) [[likely]]
    return check_made(comm);
  return make_error(Code::kInvalidArgument,
                    "the communicator's last call is still in progress: poll "
                    "ncclCommGetAsyncError until it is not ncclInProgress");
}

Status check_usable(const Comm& comm) {
  switch (comm.phase.load(std::memory_order_acquire)) {
    case Comm::Phase::kRevoked:
      return make_error(Code::kInvalidUsage, "the communicator was revoked: shrink or destroy it");
    case Comm::Phase::kFinalized:
      return make_error(Code::kInvalidArgument,
                        "the communicator was finalized: only ncclCommDestroy is left");
    case Comm::Phase::kStarting:
    case Comm::Phase::kReady:
      break;
  }
  return check_ready(comm);
}

}  // namespace tutti::capi
