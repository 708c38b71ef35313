// ncclGroupStart .. ncclGroupEnd of one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "nccl.h"
#include "src/capi/batch.hpp"
#include "src/capi/device_batch.hpp"
#include "tutti/error.hpp"

namespace tutti::capi {

/// Work on a communicator that is not a call: init, split, shrink, finalize, destroy ...
struct Job {
  const char* function;  ///< for error texts
  /// Whose configuration decides whether the job blocks; when it does not, its thread runs the job.
  CommRef owner;
  std::function<Status()> run;
  /// Undoes the job's preparation when it is never run.
  std::function<void()> undo = [] {};
  bool always_blocks = false;  ///< destroy, abort
};

/// Runs jobs concurrently when there are several, so that ranks of one communicator can meet.
/// ncclInProgress when their owners do not block; else returns when all are done, with the first
/// error.
Result<ncclResult_t> run_jobs(std::vector<Job> jobs);

/// One per thread. Value apart from the work it holds.
class Group {
 public:
  [[nodiscard]] bool open() const { return depth_ > 0; }
  void start() { ++depth_; }
  /// If this is the outermost end, runs everything: jobs that begin communicators, then calls, then
  /// jobs that finalize communicators, then jobs that end them. If the group has an error, runs
  /// only the last two kinds.
  Result<ncclResult_t> end();
  /// Ends the group without running it. The outermost end returns the microseconds that the calls
  /// would take, an inner one nothing. If the group has an error, returns that.
  Result<std::optional<double>> simulate_end();

  void add(ncclComm* handle, const std::shared_ptr<Stream>& stream, const Call& call);
  /// Of a CUDA communicator.
  void add_device_call(ncclComm* handle, cudaStream_t stream, const Call& call);
  void add_beginning(Job job);
  void add_ending(Job job);
  /// The group's first error; later ones are dropped.
  void fail(const Error& error);

 private:
  void note_mode(bool blocking);
  [[nodiscard]] Status check() const;
  Result<ncclResult_t> run_all();
  Group take();

  int depth_ = 0;
  std::optional<Error> error_;
  std::vector<Job> beginnings_;
  Batch batch_;
  DeviceBatch device_batch_;
  std::vector<Job> finalizations_;
  std::vector<Job> endings_;
  bool has_blocking_ = false;
  bool has_nonblocking_ = false;
};

}  // namespace tutti::capi
