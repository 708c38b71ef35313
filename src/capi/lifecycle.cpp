#include "src/capi/lifecycle.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/capi/process.hpp"

namespace tutti::capi {
namespace {

Nanos from_seconds(double seconds) {
  return std::chrono::duration_cast<Nanos>(std::chrono::duration<double>(seconds));
}

/// From here on other threads may use the communicator.
void publish(Comm& comm, std::unique_ptr<Communicator> made) {
  comm.rank = made->rank();
  comm.size = made->size();
  comm.communicator = std::move(made);
  comm.phase.store(Comm::Phase::kReady, std::memory_order_release);
}

/// Work in flight, background work included, is over once this returns.
void quiesce(ncclComm* handle) {
  handle->turns.drain();
  handle->comm->worker.drain();
}

void abort_communicator(Comm& comm) {
  if (comm.phase.load(std::memory_order_acquire) == Comm::Phase::kStarting) return;
  comm.communicator->abort(make_error(Code::kAborted, "rank {} called ncclCommAbort", comm.rank));
}

/// In the handle's turn.
Status make_and_publish(ncclComm* handle, const Maker& make, double timeout_s) {
  TUTTI_ASSIGN(const Deadline usual, init_deadline());
  TUTTI_ASSIGN(const auto runtime, process().runtime());
  const Deadline limit = timeout_s > 0 ? Deadline::after(from_seconds(timeout_s)) : usual;
  Comm& comm = *handle->comm;
  comm.checks = runtime->settings.flag("CHECK");
  const CommunicatorOptions options{comm.config.name};
  auto made = make(options, limit.unless(comm.aborted));
  if (!made && comm.aborted.raised())
    return make_error(Code::kAborted, "the communicator was aborted while it was being made");
  if (!made) return std::move(made).error();
  publish(comm, *std::move(made));
  return ok_status();
}

}  // namespace

Result<Deadline> init_deadline() {
  TUTTI_ASSIGN(const auto runtime, process().runtime());
  return Deadline::after(from_seconds(runtime->settings.seconds("INIT_TIMEOUT")));
}

void show(ncclComm_t* newcomm, ncclComm* handle) { std::atomic_ref(*newcomm).store(handle); }

Result<ncclResult_t> begin(const char* function, ncclComm_t* newcomm, const CommConfig& config,
                           Maker make, double timeout_s) {
  ncclComm* const handle = process().handles.add(config);
  // Taken before anybody else can see the handle: whoever aborts it waits for the first turn.
  const auto first_turn = std::make_shared<TurnLater>(handle->turns);
  show(newcomm, handle);
  const auto forget = [handle, newcomm, first_turn] {
    const bool ours = HandleTable::retire(handle);  // or another thread aborted it and ends it
    if (ours) show(newcomm, nullptr);
    first_turn->leave();
    if (ours) process().handles.release(handle);
  };
  Job job{function, handle,
          [handle, make = std::move(make), timeout_s, first_turn, forget] {
            first_turn->await();
            const bool blocking = handle->comm->config.blocking;
            Status made = make_and_publish(handle, make, timeout_s);
            if (made || !blocking)
              first_turn->leave();
            else
              forget();
            return made;
          },
          [first_turn, forget] {
            first_turn->await();
            forget();
          }};
  Group& group = this_thread_group();
  if (!group.open()) return run_jobs({std::move(job)});
  group.add_beginning(std::move(job));
  return ncclSuccess;
}

Result<ncclResult_t> run_ending(Job job) {
  Group& group = this_thread_group();
  if (!group.open()) return run_jobs({std::move(job)});
  group.add_ending(std::move(job));
  return ncclSuccess;
}

Status finalize(ncclComm* handle) {
  TUTTI_ASSIGN(const Deadline deadline, init_deadline());
  const Turn turn(handle->turns);
  return handle->comm->communicator->finalize(deadline);
}

Status end_comm(ncclComm* handle, bool abort) {
  if (!HandleTable::retire(handle)) {
    return make_error(Code::kInvalidArgument, "{} is not a live communicator",
                      static_cast<const void*>(handle));
  }
  Comm& comm = *handle->comm;
  if (abort) {
    comm.aborted.raise();
    abort_communicator(comm);
  }
  quiesce(handle);
  if (abort) abort_communicator(comm);  // it may have come to life in the end
  if (!abort && comm.phase.load() == Comm::Phase::kReady && comm.health()) {
    if (const Status flushed = finalize(handle); !flushed) {
      log_warn("", "ncclCommDestroy: freed, though its goodbye failed: {}", flushed.error().what);
    }
  }
  process().handles.release(handle);
  return ok_status();
}

}  // namespace tutti::capi
