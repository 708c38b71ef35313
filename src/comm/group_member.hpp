// One rank of a communicator, as whoever makes calls on it sees it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "src/base/clock.hpp"
#include "src/base/waiter.hpp"
#include "src/comm/call.hpp"
#include "src/comm/group_facts.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

class Communicator;

struct CommunicatorOptions {
  std::string name;      ///< for log lines; "" makes one up
  bool is_part = false;  ///< set by split and shrink: files for more ranks are no mistake then
  /// The GPU that this rank uses, for messages; "": its buffers are the host's. All ranks have one
  /// or none has.
  std::string device;
};

/// An interface so that tests of the C API need no ranks. Calls are made by one thread at a time
/// and in the same order on every rank.
class GroupMember {
 public:
  virtual ~GroupMember() = default;

  [[nodiscard]] virtual const GroupFacts& facts() const = 0;

  /// Starts the calls of one group: they are queued behind the calls started before and run as
  /// poll() is called. Arguments are checked here (valid_call.hpp); nothing starts when one is
  /// wrong, and the communicator lives on. Calls of one group run in order, except that all sends
  /// and receives of a group progress together.
  virtual Status start(std::span<const Call> calls) = 0;

  enum class Progress : std::uint8_t { kIdle, kPending };
  /// Moves the started calls on without waiting; kIdle when all are complete. An error ends all of
  /// them, raises the abort state and is returned by every later call, also where nothing is left
  /// to move.
  virtual Result<Progress> poll() = 0;
  /// May sleep until poll() could do something, for a millisecond at most. `polls` counts the
  /// caller's fruitless polls so far. It decides, with `caller`, between spinning, yielding and
  /// sleeping.
  virtual void idle(std::uint32_t polls, CallerActivity caller) = 0;
  /// idle() for a thread that polls several communicators: adds what this one waits for, and does
  /// not wait.
  virtual void add_waits(WaitSet& waits, CallerActivity caller) = 0;

  /// Starts one call and polls until it is complete.
  virtual Status run(const Call& call) = 0;

  /// Microseconds that the calls of one group would take, by the cost model
  /// (src/cost/predict.hpp) and the calibration of rank 0, or the default one. Nothing is started;
  /// the calls must be valid. kUnsupported where the model cannot tell.
  virtual Result<double> predict(std::span<const Call> calls) = 0;

  /// Collective over the parent. color < 0: this rank joins no group and gets nullptr. Ordered by
  /// (key, old rank).
  virtual Result<std::unique_ptr<Communicator>> split(int color, int key,
                                                      const CommunicatorOptions& options,
                                                      Deadline deadline) = 0;
  /// Collective over the ranks not in `exclude`, which must not call. Works when excluded ranks are
  /// dead and after abort(); the survivors agree on who takes part.
  virtual Result<std::unique_ptr<Communicator>> shrink(std::span<const Rank> exclude,
                                                       const CommunicatorOptions& options,
                                                       Deadline deadline) = 0;

  /// Completes the started calls. Then only facts(), health() and abort() may be called.
  virtual Status finalize(Deadline deadline) = 0;
  /// Ends all pending and future calls, here with kAborted, and on the peers with kPeerFailed that
  /// names this rank. Idempotent, any thread.
  virtual void abort(const Error& why) = 0;
  /// Ok, or the error that ended this communicator. Any thread.
  [[nodiscard]] virtual Status health() const = 0;
};

/// Polls several communicators, each with started calls, until all are idle: what ncclGroupEnd
/// does. After an error, which ends all that are not idle yet, none touches a caller's buffer.
/// `caller_activity`, asked before each wait, says what the ranks do meanwhile on other threads;
/// none: nothing.
Status run_group(std::span<GroupMember* const> members,
                 const std::function<CallerActivity()>& caller_activity = {});

}  // namespace tutti
