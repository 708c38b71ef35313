#include "src/capi/device_batch.hpp"

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "src/base/result.hpp"
#include "src/capi/errors.hpp"
#include "src/capi/process.hpp"
#include "src/comm/valid_call.hpp"

namespace tutti::capi {
namespace {

constexpr std::uint32_t kNap = 1000;  // polls after which a wait sleeps

/// What a failure means: the communicator has ended, and ncclCommGetAsyncError says so.
void settle(Comm& comm, const char* function, const Error& error) {
  report(function, error, comm.who());
  comm.note(function, error);
  comm.set_failure(error);
}

/// Runs the next step of a turn on the worker, which `comm` outlives. One run for each step.
void run_next(Comm& comm, const char* function, const std::shared_ptr<SharedTurn>& turn) {
  const SharedTurn::Entry entry = turn->try_enter();
  if (entry == SharedTurn::Entry::kNotYet) {
    // Others have the communicator, and may wait for steps of an earlier turn, which come behind.
    wait_once({}, kNap, turn->until());
    comm.stream_worker.push([&comm, function, turn] { run_next(comm, function, turn); });
    return;
  }
  const std::optional<HostStep> step = turn->take();
  if (!step || entry == SharedTurn::Entry::kCancelled || !comm.health()) return;
  if (const Status done = step->run(*comm.member); !done) settle(comm, function, done.error());
}

/// `handle` is pinned, or the turn has not ended.
void hand_over(ncclComm* handle, const char* function, const std::shared_ptr<SharedTurn>& turn,
               HostStep step) {
  turn->add(std::move(step), [&] {
    Comm& comm = *handle->comm;
    comm.stream_worker.push([&comm, function, turn] { run_next(comm, function, turn); });
  });
}

/// Hands steps on to the worker of their communicator: in the turn that their launch has from the
/// start, or, where a graph replays them, in one for each step. A communicator that was aborted
/// meanwhile has no use for them.
HostStepSink sink_of(const CommRef& comm, const char* function,
                     const std::shared_ptr<SharedTurn>& turn) {
  if (turn) {
    return [comm, function, turn](HostStep step) {
      hand_over(comm.handle, function, turn, std::move(step));
    };
  }
  return [comm, function](HostStep step) {
    const Pin pin(comm.handle);
    if (!comm.check(pin)) return;
    const auto joined = comm.handle->comm->stream_turns.join(comm.handle->turns);
    hand_over(comm.handle, function, joined, std::move(step));
  };
}

}  // namespace

void DeviceBatch::add(ncclComm* handle, cudaStream_t stream, const Call& call) {
  const CommRef comm(handle);
  auto share = std::ranges::find(shares_, comm.life, [](const Share& it) { return it.comm.life; });
  if (share == shares_.end()) share = shares_.insert(shares_.end(), Share{comm, {}, {}});
  share->calls.push_back(call);
  if (std::ranges::find(share->streams, stream) == share->streams.end())
    share->streams.push_back(stream);
}

Status DeviceBatch::check() const {
  for (const Share& share : shares_) TUTTI_TRY(check_group(share.calls, share.comm.rank));
  return ok_status();
}

Status DeviceBatch::launch(const char* function) const {
  std::deque<Pin> pins;
  std::vector<Comm*> comms;
  for (const Share& share : shares_) {
    TUTTI_TRY(share.comm.check(pins.emplace_back(share.comm.handle)));
    comms.push_back(share.comm.handle->comm.get());
  }
  std::vector<std::unique_lock<std::mutex>> locks;
  std::vector<Comm*> in_one_order = comms;
  std::ranges::sort(in_one_order);
  for (Comm* const comm : in_one_order) locks.emplace_back(comm->launching);
  std::vector<DeviceWork> works;
  for (const Share& share : shares_) {
    Comm& comm = *share.comm.handle->comm;
    TUTTI_TRY(comm.health());
    TUTTI_ASSIGN(const bool captured, comm.device->check(share.calls, share.streams));
    const auto turn = captured ? nullptr : comm.stream_turns.join(share.comm.handle->turns);
    works.push_back({comm.device.get(), share.calls, share.streams,
                     sink_of(share.comm, function, turn), &comm.aborted});
  }
  const Status enqueued = DeviceCalls::enqueue(works);
  if (enqueued) return ok_status();
  // What is enqueued of the calls waits for what is not, on this rank and on others.
  for (Comm* const comm : comms) {
    comm->member->abort(enqueued.error());
    comm->set_failure(enqueued.error());
  }
  return enqueued;
}

}  // namespace tutti::capi
