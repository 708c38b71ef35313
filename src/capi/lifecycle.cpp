#include "src/capi/lifecycle.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/capi/process.hpp"
#include "src/comm/communicator.hpp"

namespace tutti::capi {
namespace {

/// Years count as one: a point on the clock has to be left in 64 bits.
Nanos from_seconds(double seconds) {
  constexpr double kLongest = 366 * 86400.0;
  return std::chrono::duration_cast<Nanos>(
      std::chrono::duration<double>(std::min(seconds, kLongest)));
}

/// From here on other threads may use the communicator.
void publish(Comm& comm, std::unique_ptr<Communicator> made, std::unique_ptr<DeviceCalls> device) {
  comm.rank = made->rank();
  comm.size = made->size();
  comm.communicator = made.get();
  comm.member = std::move(made);
  comm.device = std::move(device);
  comm.phase.store(Comm::Phase::kReady, std::memory_order_release);
}

void abort_communicator(Comm& comm) {
  if (comm.phase.load(std::memory_order_acquire) == Comm::Phase::kStarting) return;
  comm.member->abort(make_error(Code::kAborted, "rank {} called ncclCommAbort", comm.rank));
}

/// Waits for the calls; false when that took too long.
bool drain_in_time(Turnstile& turns) {
  const auto limit = init_limit();
  return turns.drain(limit ? Deadline::after(*limit) : Deadline::never());
}

/// Nobody starts or waits for anything any more, and what runs ends.
void end_calls(ncclComm* handle) {
  handle->comm->aborted.raise();
  abort_communicator(*handle->comm);
  handle->turns.cancel_reserved();
  handle->comm->stream_turns.end();
}

Status flush(ncclComm* handle) {
  TUTTI_ASSIGN(const Nanos limit, init_limit());
  return handle->comm->member->finalize(Deadline::after(limit));
}

/// In the handle's turn.
Status make_and_publish(ncclComm* handle, const Maker& make, double timeout_s) {
  TUTTI_ASSIGN(const Nanos usual, init_limit());
  TUTTI_ASSIGN(const auto runtime, process().runtime());
  Comm& comm = *handle->comm;
  comm.checks = runtime->settings.flag("CHECK");
  CommunicatorOptions options{.name = comm.config.name, .device = ""};
  if (comm.config.device) {
    TUTTI_ASSIGN(options.device, device_label(*runtime, *comm.config.device));
    TUTTI_ASSIGN(const cuda::DeviceFacts gpu, runtime->cuda->device(*comm.config.device));
    runtime->this_host->place_at_gpu(gpu.bus_id);
  }
  const Nanos limit = timeout_s > 0 ? from_seconds(timeout_s) : usual;
  auto made = make(options, limit, comm.aborted);
  if (!made && comm.aborted.raised())
    return make_error(Code::kAborted, "the communicator was aborted while it was being made");
  if (!made) return std::move(made).error();
  std::unique_ptr<DeviceCalls> device;
  if (comm.config.device) {
    TUTTI_TRY(comm.stream_worker.start());
    TUTTI_ASSIGN(device, DeviceCalls::create(*runtime, **made, *comm.config.device,
                                             Deadline::after(limit).unless(comm.aborted)));
  }
  publish(comm, *std::move(made), std::move(device));
  return ok_status();
}

}  // namespace

Result<Nanos> init_limit() {
  TUTTI_ASSIGN(const auto runtime, process().runtime());
  return from_seconds(runtime->settings.seconds("INIT_TIMEOUT"));
}

void show(ncclComm_t* newcomm, ncclComm* handle) { std::atomic_ref(*newcomm).store(handle); }

Result<ncclResult_t> begin(const char* function, ncclComm_t* newcomm, const CommConfig& config,
                           Maker make, double timeout_s) {
  const CommRef comm(process().handles.add(config));
  // Reserved before anybody else can see the handle: whoever aborts it cancels the first turn, or
  // waits for it.
  const auto first_turn = std::make_shared<TurnLater>(comm.handle->turns);
  show(newcomm, comm.handle);
  const auto forget = [comm, newcomm, first_turn] {
    const bool ours = HandleTable::retire(comm);  // or another thread aborted it and ends it
    if (ours) show(newcomm, nullptr);
    first_turn->leave();
    if (ours) process().handles.release(comm.handle);
  };
  Job job{function, comm,
          [comm, make = std::move(make), timeout_s, first_turn, forget]() -> Status {
            if (!first_turn->enter()) return aborted_meanwhile();
            Status made = make_and_publish(comm.handle, make, timeout_s);
            if (made || !comm.blocking)
              first_turn->leave();
            else
              forget();
            return made;
          },
          [first_turn, forget] {
            if (first_turn->enter()) forget();
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

Status finalize(const CommRef& comm) {
  // In the background the communicator stays: whoever ends it waits for its worker.
  const auto ended = [&] { return comm.blocking && comm.handle->life.load() != comm.life; };
  if (ended()) return aborted_meanwhile();  // the turn of the handle's next one may take long
  if (!drain_in_time(comm.handle->turns)) {
    return make_error(Code::kTimeout,
                      "calls were still under way after TUTTI_INIT_TIMEOUT: synchronize their "
                      "streams first, or abort the communicator");
  }
  const Turn turn(comm.handle->turns);
  if (ended()) return aborted_meanwhile();
  return flush(comm.handle);
}

Status end_comm(const CommRef& ref, bool abort) {
  ncclComm* const handle = ref.handle;
  if (!HandleTable::retire(ref)) {
    return make_error(Code::kInvalidArgument, "{} is not a live communicator",
                      static_cast<const void*>(handle));
  }
  Comm& comm = *handle->comm;
  const bool late = !abort && !drain_in_time(handle->turns);
  if (abort || late) end_calls(handle);
  handle->turns.drain();
  comm.worker.drain();
  comm.stream_turns.end();
  comm.stream_worker.drain();
  if (abort || late) {
    abort_communicator(comm);  // it may have come to life in the end
  } else if (comm.phase.load() == Comm::Phase::kReady && comm.health()) {
    if (const Status flushed = flush(handle); !flushed) {
      log_warn(comm.who(), "ncclCommDestroy: freed, though its goodbye failed: {}",
               flushed.error().what);
    }
  }
  process().handles.release(handle);
  if (!late) return ok_status();
  return make_error(Code::kTimeout,
                    "calls were still under way after TUTTI_INIT_TIMEOUT; they were aborted and "
                    "the communicator freed");
}

}  // namespace tutti::capi
