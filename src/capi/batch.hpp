// Calls that run together: one call, or all of a group.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "nccl.h"
#include "src/capi/comm.hpp"
#include "src/capi/stream.hpp"
#include "tutti/error.hpp"

namespace tutti::capi {

/// Collected by one thread, then dispatched once. Meanwhile another thread may abort its
/// communicators.
class Batch {
 public:
  /// `stream` nullptr: the calling thread. `handle` is pinned.
  void add(ncclComm* handle, const std::shared_ptr<Stream>& stream, const Call& call);
  [[nodiscard]] bool empty() const { return shares_.empty(); }
  /// Whether it is one call without a stream on a communicator that blocks, as if outside of a
  /// group.
  [[nodiscard]] bool is_lone_call() const;
  /// check_group() of each communicator's calls: a batch that fails it ends no communicator.
  [[nodiscard]] Status check() const;

  /// Takes each communicator's turn and runs the calls. If some call has no stream, they run here,
  /// or on a background thread when the communicators do not block. Else they run on the first
  /// stream, and the other streams wait for it. ncclInProgress: the caller has to ask whether they
  /// have ended. `function` names the caller in error texts. The batch must pass check().
  static Result<ncclResult_t> dispatch(Batch batch, const char* function);
  /// The same for a lone call: it takes its turn at once, and nothing is kept for later.
  Status run_lone_call(const char* function);
  /// The calls cannot be made, because something was thrown: the communicators end, since peers
  /// would wait for them.
  void end_all(const Error& why) const;
  /// Microseconds that the calls would take, on all communicators at once. Runs nothing. The batch
  /// must pass check().
  [[nodiscard]] Result<double> predict() const;

 private:
  /// What one communicator contributes.
  struct Share {
    CommRef comm;
    std::vector<Call> calls;
    std::shared_ptr<TurnLater> turn;
  };
  struct Meeting;

  Status reserve(std::deque<Pin>& pins);
  Status start_threads();
  void count_in_background(int change) const;
  Status run(Meeting& meeting);
  void run_and_report(Meeting& meeting);
  [[nodiscard]] CallerActivity caller_activity() const;
  static Result<ncclResult_t> begin(const std::shared_ptr<Batch>& batch, const char* function);
  Status execute(const Meeting& meeting);
  Status await_turns(const Meeting& meeting);
  Status start_all();
  void settle(const CommRef& ref, const Status& outcome) const;

  const char* function_ = "";
  bool in_background_ = false;
  std::vector<Share> shares_;
  std::vector<std::shared_ptr<Stream>> streams_;
  std::vector<std::shared_ptr<Compressor>> kept_;  ///< of the calls: they outlive their handles
  bool caller_takes_part_ = false;
};

}  // namespace tutti::capi
