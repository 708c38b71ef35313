#include "src/capi/group.hpp"

#include <memory>
#include <thread>
#include <utility>

#include "src/base/result.hpp"
#include "src/capi/answer.hpp"
#include "src/capi/errors.hpp"

namespace tutti::capi {
namespace {

bool in_background(const Job& job) { return !job.always_blocks && !job.owner.blocking; }

/// Nobody above a thread of the library would catch what it throws.
Status run(const Job& job) {
  try {
    return job.run();
  } catch (...) {
    return thrown_error();
  }
}

/// The owner's failure is what ncclCommGetAsyncError reports from then on.
Status run_in_background(const Job& job) {
  const Pin pin(job.owner.handle);
  TUTTI_TRY(job.owner.check(pin));
  Comm& comm = *job.owner.handle->comm;
  TUTTI_TRY(comm.worker.start());
  comm.background.fetch_add(1);
  try {
    comm.worker.push([job, &comm] {
      if (const Status outcome = run(job); !outcome) {
        report(job.function, outcome.error(), comm.who());
        comm.note(job.function, outcome.error());
        comm.set_failure(outcome.error());
      }
      comm.background.fetch_sub(1, std::memory_order_release);
    });
  } catch (...) {  // nobody will run it
    comm.background.fetch_sub(1, std::memory_order_release);
    return thrown_error();
  }
  return ok_status();
}

Status run_together(const std::vector<Job>& jobs) {
  if (jobs.size() == 1) return jobs.front().run();
  std::vector<Status> outcomes(jobs.size());
  std::vector<std::thread> threads(jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    Status started = start_thread(threads[i], [&, i] { outcomes[i] = run(jobs[i]); });
    if (started) continue;
    jobs[i].undo();
    outcomes[i] = std::move(started);
  }
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  for (Status& outcome : outcomes) TUTTI_TRY(std::move(outcome));
  return ok_status();
}

}  // namespace

Result<ncclResult_t> run_jobs(std::vector<Job> jobs) {
  ncclResult_t result = ncclSuccess;
  std::vector<Job> here;
  Status refused = ok_status();
  for (Job& job : jobs) {
    if (in_background(job)) {
      if (Status begun = run_in_background(job); !begun) {
        job.undo();
        if (refused) refused = std::move(begun);
      }
      result = ncclInProgress;
    } else {
      here.push_back(std::move(job));
    }
  }
  if (!here.empty()) TUTTI_TRY(run_together(here));
  TUTTI_TRY(std::move(refused));
  return result;
}

void Group::note_mode(bool blocking) { (blocking ? has_blocking_ : has_nonblocking_) = true; }

void Group::add(ncclComm* handle, const std::shared_ptr<Stream>& stream, const Call& call) {
  note_mode(handle->comm->config.blocking);
  batch_.add(handle, stream, call);
}

void Group::add_device_call(ncclComm* handle, cudaStream_t stream, const Call& call) {
  note_mode(handle->comm->config.blocking);
  device_batch_.add(handle, stream, call);
}

void Group::add_beginning(Job job) {
  note_mode(job.owner.blocking);
  beginnings_.push_back(std::move(job));
}

void Group::add_ending(Job job) {
  if (!job.always_blocks) note_mode(job.owner.blocking);
  (job.always_blocks ? endings_ : finalizations_).push_back(std::move(job));
}

void Group::fail(const Error& error) {
  if (!error_) error_ = error;
}

Status Group::check() const {
  if (error_) return *error_;
  if (has_blocking_ && has_nonblocking_) {
    return make_error(Code::kInvalidArgument,
                      "the group mixes communicators that block with ones that do not: use a group "
                      "for each kind");
  }
  if (!batch_.empty() && !device_batch_.empty()) {
    return make_error(Code::kUnsupported,
                      "the group has calls on host communicators and on CUDA communicators: use a "
                      "group for each kind");
  }
  TUTTI_TRY(device_batch_.check());
  return batch_.check();
}

Result<ncclResult_t> Group::run_all() {
  ncclResult_t result = ncclSuccess;
  const auto merge = [&](ncclResult_t step) {
    if (step == ncclInProgress) result = ncclInProgress;
  };
  if (!beginnings_.empty()) {
    TUTTI_ASSIGN(const ncclResult_t step, run_jobs(std::move(beginnings_)));
    merge(step);
  }
  if (batch_.is_lone_call()) {
    TUTTI_TRY(batch_.run_lone_call("ncclGroupEnd"));
  } else if (!batch_.empty()) {
    TUTTI_ASSIGN(const ncclResult_t step, Batch::dispatch(std::move(batch_), "ncclGroupEnd"));
    merge(step);
  }
  if (!device_batch_.empty()) TUTTI_TRY(device_batch_.launch("ncclGroupEnd"));
  return result;
}

/// What the group holds. Leaves a new group, and is cheaper than std::exchange().
Group Group::take() {
  Group whole = std::move(*this);
  std::destroy_at(this);
  std::construct_at(this);
  return whole;
}

Result<ncclResult_t> Group::end() {
  if (depth_ == 0) {
    return make_error(Code::kInvalidUsage,
                      "no group is open on this thread: call ncclGroupStart first");
  }
  if (--depth_ > 0) return ncclSuccess;
  Group whole = take();
  Result<ncclResult_t> outcome = ncclSuccess;
  if (Status right = whole.check(); !right) {
    for (const Job& job : whole.beginnings_) job.undo();
    whole.beginnings_.clear();  // with their turns, which the endings wait for
    outcome = std::move(right).error();
  } else {
    try {
      outcome = whole.run_all();
    } catch (...) {  // the others of the group would wait for what is left of it
      outcome = thrown_error();
      whole.batch_.end_all(outcome.error());
    }
  }
  for (std::vector<Job>* jobs : {&whole.finalizations_, &whole.endings_}) {
    const Result<ncclResult_t> ended = run_jobs(std::move(*jobs));
    if (outcome && (!ended || *ended == ncclInProgress)) outcome = ended;
  }
  return outcome;
}

Result<std::optional<double>> Group::simulate_end() {
  if (depth_ == 0) {
    return make_error(Code::kInvalidUsage,
                      "no group is open on this thread: call ncclGroupStart first");
  }
  if (--depth_ > 0) return std::optional<double>();
  const Group whole = take();
  for (const Job& job : whole.beginnings_) job.undo();
  if (whole.error_) return *whole.error_;
  if (!whole.device_batch_.empty()) {
    return make_error(Code::kUnsupported,
                      "the cost model does not know calls on GPU buffers yet: nothing can be "
                      "predicted of this group");
  }
  TUTTI_TRY(whole.batch_.check());
  TUTTI_ASSIGN(const double us, whole.batch_.predict());
  return std::optional(us);
}

}  // namespace tutti::capi
