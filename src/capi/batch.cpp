#include "src/capi/batch.hpp"

#include <algorithm>
#include <atomic>
#include <latch>

#include "src/base/result.hpp"
#include "src/capi/answer.hpp"
#include "src/capi/errors.hpp"
#include "src/capi/process.hpp"
#include "src/comm/valid_call.hpp"

namespace tutti::capi {

/// Streams that take part in a batch wait here for the one that runs it.
struct Batch::Meeting {
  explicit Meeting(std::size_t others) : missing(others) {}

  void wait_for_end() {
    missing.fetch_sub(1, std::memory_order_release);
    wake_sleepers(missing, sleepers);
    done.wait();
  }

  std::atomic<std::uint64_t> missing;
  mutable std::atomic<std::uint32_t> sleepers{0};
  std::latch done{1};
};

void Batch::add(ncclComm* handle, const std::shared_ptr<Stream>& stream, const Call& call) {
  const CommRef comm(handle);
  auto share = std::ranges::find(shares_, comm.life, [](const Share& it) { return it.comm.life; });
  if (share == shares_.end()) share = shares_.insert(shares_.end(), Share{comm, {}, nullptr});
  share->calls.push_back(call);
  if (call.compressor != nullptr) kept_.push_back(call.compressor->shared_from_this());
  if (!stream) {
    caller_takes_part_ = true;
  } else if (std::ranges::find(streams_, stream) == streams_.end()) {
    streams_.push_back(stream);
  }
}

Status Batch::check() const {
  for (const Share& share : shares_) TUTTI_TRY(check_group(share.calls, share.comm.rank));
  return ok_status();
}

bool Batch::is_lone_call() const {
  return shares_.size() == 1 && shares_.front().calls.size() == 1 && streams_.empty() &&
         shares_.front().comm.blocking;
}

Status Batch::run_lone_call(const char* function) {
  function_ = function;
  const Share& share = shares_.front();
  // Before the turn too: the handle may be another communicator's by now, whose turn takes long.
  if (share.comm.handle->life.load() != share.comm.life) return aborted_meanwhile();
  const Turn turn(share.comm.handle->turns);
  TUTTI_TRY(share.comm.check(Pin(share.comm.handle)));
  Comm& comm = *share.comm.handle->comm;
  const Status outcome = run_or_end(comm, [&] { return comm.member->run(share.calls.front()); });
  if (!outcome) settle(share.comm, outcome);
  return outcome;
}

Result<double> Batch::predict() const {
  double longest = 0;
  for (const Share& share : shares_) {
    if (share.comm.handle->life.load() != share.comm.life) return aborted_meanwhile();
    const Turn turn(share.comm.handle->turns);
    TUTTI_TRY(share.comm.check(Pin(share.comm.handle)));
    TUTTI_ASSIGN(const double us, share.comm.handle->comm->member->predict(share.calls));
    longest = std::max(longest, us);
  }
  return longest;
}

/// Pins all communicators and reserves their turns.
Status Batch::reserve(std::deque<Pin>& pins) {
  for (Share& share : shares_) {
    TUTTI_TRY(share.comm.check(pins.emplace_back(share.comm.handle)));
    TUTTI_ASSIGN(share.turn, reserve_turn(share.comm));
  }
  return ok_status();
}

/// Where the batch will run: what the system refuses it refuses before anything is queued.
Status Batch::start_threads() {
  for (const auto& stream : streams_) TUTTI_TRY(stream->worker.start());
  if (in_background_) TUTTI_TRY(shares_.front().comm.handle->comm->worker.start());
  return ok_status();
}

/// Under the pins of reserve().
void Batch::count_in_background(int change) const {
  if (!in_background_) return;
  for (const Share& share : shares_) share.comm.handle->comm->background.fetch_add(change);
}

/// The caller of a batch that runs on a worker computes until it waits for one of the streams. The
/// caller of a background call computes, too: it asks for the end only now and then.
CallerActivity Batch::caller_activity() const {
  const auto awaited = [](const auto& stream) { return stream->worker.awaited(); };
  return std::ranges::any_of(streams_, awaited) ? CallerActivity::kWaits
                                                : CallerActivity::kComputes;
}

/// Waits for all turns and streams together. An abort cancels the turns of its communicator, and so
/// ends the wait although others may take long yet; kAborted then.
Status Batch::await_turns(const Meeting& meeting) {
  const auto came = [](const Share& share) { return share.turn->came(); };
  for (std::uint32_t polls = 0;; ++polls) {
    const auto late = std::ranges::find_if_not(shares_, came);
    const std::uint64_t missing = meeting.missing.load(std::memory_order_acquire);
    if (late == shares_.end() && missing == 0) break;
    for (const Share& share : shares_) {
      if (share.turn->cancelled()) return aborted_meanwhile();
    }
    wait_once({}, polls,
              late != shares_.end() ? late->turn->until()
                                    : WaitWord{&meeting.missing, missing, &meeting.sleepers});
  }
  for (const Share& share : shares_) {
    if (!share.turn->claim()) return aborted_meanwhile();
  }
  return ok_status();
}

/// When one communicator refuses its calls, those started already would wait for ranks that may
/// never come: they end with the same error.
Status Batch::start_all() {
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    const Status started = shares_[i].comm.handle->comm->member->start(shares_[i].calls);
    if (started) continue;
    for (std::size_t j = 0; j < i; ++j) {
      shares_[j].comm.handle->comm->member->abort(
          make_error(Code::kAborted, "another communicator of the group refused its calls: {}",
                     started.error().what));
    }
    return started;
  }
  return ok_status();
}

Status Batch::execute(const Meeting& meeting) {
  TUTTI_TRY(await_turns(meeting));
  TUTTI_TRY(start_all());
  std::vector<GroupMember*> members;
  members.reserve(shares_.size());
  for (const Share& share : shares_) members.push_back(share.comm.handle->comm->member.get());
  if (caller_takes_part_ && !in_background_) return run_group(members);
  return run_group(members, [this] { return caller_activity(); });
}

/// Tells the communicator, if it still lives, how the batch ended.
void Batch::settle(const CommRef& ref, const Status& outcome) const {
  const Pin pin(ref.handle);
  if (!ref.check(pin)) return;
  Comm& comm = *ref.handle->comm;
  if (!outcome) {
    const Status own = comm.health();
    const Error& error = own ? outcome.error() : own.error();
    comm.note(function_, error);
    if (in_background_) comm.set_failure(error);
  }
  if (in_background_) comm.background.fetch_sub(1, std::memory_order_release);
}

/// Executes, tells everybody how that ended, and gives the turns back.
Status Batch::run(Meeting& meeting) {
  Status outcome = ok_status();
  try {
    outcome = execute(meeting);
  } catch (...) {
    outcome = thrown_error();
    for (const Share& share : shares_) end_and_cancel(*share.comm.handle->comm, outcome.error());
  }
  for (const Share& share : shares_) settle(share.comm, outcome);
  if (!outcome) {
    for (const auto& stream : streams_) stream->fail(outcome.error());
  }
  for (Share& share : shares_) share.turn.reset();
  meeting.done.count_down();
  return outcome;
}

/// The same where nobody waits for the outcome.
void Batch::run_and_report(Meeting& meeting) {
  if (const Status outcome = run(meeting); !outcome) {
    report(function_, outcome.error(), shares_.front().comm.who());
  }
}

void Batch::end_all(const Error& why) const {
  for (const Share& share : shares_) {
    const Pin pin(share.comm.handle);
    if (share.comm.check(pin)) end_for_all(*share.comm.handle->comm, why);
  }
}

Result<ncclResult_t> Batch::dispatch(Batch batch, const char* function) {
  std::shared_ptr<Batch> shared;
  try {
    shared = std::make_shared<Batch>(std::move(batch));
    return begin(shared, function);
  } catch (...) {
    (shared ? *shared : batch).end_all(thrown_error());
    throw;
  }
}

Result<ncclResult_t> Batch::begin(const std::shared_ptr<Batch>& shared, const char* function) {
  shared->function_ = function;
  shared->in_background_ = shared->caller_takes_part_ && !shared->shares_.front().comm.blocking;
  auto& streams = shared->streams_;
  // The stream that runs the batch does not wait for itself.
  const std::size_t first_waiting = shared->caller_takes_part_ ? 0 : 1;
  auto meeting = std::make_shared<Meeting>(streams.size() - first_waiting);
  {
    std::scoped_lock lock(process().dispatching);
    std::deque<Pin> pins;
    TUTTI_TRY(shared->reserve(pins));
    TUTTI_TRY(shared->start_threads());
    shared->count_in_background(1);
    try {
      for (std::size_t i = first_waiting; i < streams.size(); ++i) {
        streams[i]->worker.push([meeting] { meeting->wait_for_end(); });
      }
      const auto run_later = [shared, meeting] { shared->run_and_report(*meeting); };
      if (!shared->caller_takes_part_) {
        streams.front()->worker.push(run_later);
        return ncclSuccess;
      }
      if (shared->in_background_) {
        shared->shares_.front().comm.handle->comm->worker.push(run_later);
        return ncclInProgress;
      }
    } catch (...) {  // nobody will run it
      shared->count_in_background(-1);
      meeting->done.count_down();
      throw;
    }
  }
  TUTTI_TRY(shared->run(*meeting));
  return ncclSuccess;
}

}  // namespace tutti::capi
