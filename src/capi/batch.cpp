#include "src/capi/batch.hpp"

#include <algorithm>
#include <latch>

#include "src/base/result.hpp"
#include "src/capi/errors.hpp"
#include "src/capi/process.hpp"

namespace tutti::capi {
namespace {

/// Streams that take part in a batch wait here for the one that runs it.
struct Meeting {
  explicit Meeting(std::ptrdiff_t others) : arrived(others) {}
  std::latch arrived;
  std::latch done{1};
};

}  // namespace

void Batch::add(ncclComm* handle, const std::shared_ptr<Stream>& stream, const Call& call) {
  auto share = std::ranges::find(shares_, handle, &Share::handle);
  if (share == shares_.end()) share = shares_.insert(shares_.end(), Share{handle, 0, {}});
  share->calls.push_back(call);
  if (!stream) {
    caller_takes_part_ = true;
  } else if (std::ranges::find(streams_, stream) == streams_.end()) {
    streams_.push_back(stream);
  }
}

Status Batch::check() const {
  for (const Share& share : shares_) TUTTI_TRY(check_group(share.calls, share.handle->comm->rank));
  return ok_status();
}

/// When one communicator refuses its calls, those started already would wait for ranks that may
/// never come: they end with the same error.
Status Batch::start_all() {
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    const Status started = shares_[i].handle->comm->communicator->start(shares_[i].calls);
    if (started) continue;
    for (std::size_t j = 0; j < i; ++j) {
      shares_[j].handle->comm->communicator->abort(
          make_error(Code::kAborted, "another communicator of the group refused its calls: {}",
                     started.error().what));
    }
    return started;
  }
  return ok_status();
}

Status Batch::execute() {
  for (const Share& share : shares_) share.handle->turns.await(share.ticket);
  TUTTI_TRY(start_all());
  std::vector<Communicator*> communicators;
  communicators.reserve(shares_.size());
  for (const Share& share : shares_)
    communicators.push_back(share.handle->comm->communicator.get());
  return run_group(communicators);
}

/// Tells every communicator, and every stream, how the batch ended, and gives the turns back.
void Batch::settle(const Status& outcome, const char* function, bool in_background) {
  for (const Share& share : shares_) {
    Comm& comm = *share.handle->comm;
    if (!outcome) {
      const Status own = comm.health();
      const Error& error = own ? outcome.error() : own.error();
      comm.note(function, error);
      if (in_background) comm.set_failure(error);
    }
    if (in_background) comm.background.fetch_sub(1, std::memory_order_release);
  }
  if (!outcome) {
    for (const auto& stream : streams_) stream->fail(outcome.error());
  }
  for (const Share& share : shares_) share.handle->turns.leave();
}

Result<ncclResult_t> Batch::dispatch(Batch batch, const char* function) {
  const bool blocking = batch.shares_.front().handle->comm->config.blocking;
  const bool in_background = batch.caller_takes_part_ && !blocking;
  auto shared = std::make_shared<Batch>(std::move(batch));
  auto& streams = shared->streams_;
  // The stream that runs the batch does not wait for itself.
  const std::size_t first_waiting = shared->caller_takes_part_ ? 0 : 1;
  const auto waiting = static_cast<std::ptrdiff_t>(streams.size() - first_waiting);
  auto meeting = std::make_shared<Meeting>(waiting);

  const auto run = [shared, meeting, function, in_background] {
    meeting->arrived.wait();
    const Status outcome = shared->execute();
    shared->settle(outcome, function, in_background);
    meeting->done.count_down();
    return outcome;
  };
  {
    std::scoped_lock lock(process().dispatching);
    for (Share& share : shared->shares_) share.ticket = share.handle->turns.take();
    for (std::size_t i = first_waiting; i < streams.size(); ++i) {
      streams[i]->worker.push([meeting] {
        meeting->arrived.count_down();
        meeting->done.wait();
      });
    }
    if (!shared->caller_takes_part_) {
      streams.front()->worker.push([run, function] {
        if (const Status outcome = run(); !outcome) report(function, outcome.error());
      });
      return ncclSuccess;
    }
    if (in_background) {
      for (const Share& share : shared->shares_) share.handle->comm->background.fetch_add(1);
      shared->shares_.front().handle->comm->worker.push([run, function] {
        if (const Status outcome = run(); !outcome) report(function, outcome.error());
      });
      return ncclInProgress;
    }
  }
  TUTTI_TRY(run());
  return ncclSuccess;
}

Status run_now(ncclComm& handle, const Call& call) {
  const Turn turn(handle.turns);
  // An abort by another thread retires the handle first and then waits for the turns taken.
  if (handle.magic.load() != ncclComm::kLive) [[unlikely]] {
    return make_error(Code::kAborted, "another thread aborted the communicator");
  }
  return handle.comm->communicator->run(call);
}

}  // namespace tutti::capi
