// A group of ranks that call collectives together.
//
// Calls on one communicator are made by one thread at a time and in the same order on every rank.
// Thin: it chooses, generates, verifies, lowers, caches and launches; it knows no algorithm and no
// transport by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/waiter.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/comm/call.hpp"
#include "src/comm/call_counters.hpp"
#include "src/comm/runtime.hpp"
#include "src/lower/program.hpp"
#include "src/topo/job/fuse.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// What a group as a whole may ask of `rank`: the k-th send to itself needs a k-th receive from
/// itself of the same type and count. kInvalidUsage otherwise.
Status check_group(std::span<const Call> calls, Rank rank);

struct CommunicatorOptions {
  std::string name;      ///< for log lines; "" makes one up
  bool is_part = false;  ///< set by split and shrink: files for more ranks are no mistake then
  /// The GPU that this rank uses, for messages; "": its buffers are the host's. All ranks have one
  /// or none has.
  std::string device;
};

/// How ranks run a collective where each one's GPU reaches an area of every other's.
struct PeerPrograms {
  std::shared_ptr<const lower::Lowered> out_of_place;
  /// For ranks in place beside others that are not. Null: they would not understand each other, so
  /// ranks in place have to run the other one, on a copy of their input.
  std::shared_ptr<const lower::Lowered> in_place;
};

class Communicator {
 public:
  /// Collective over the bootstrap's ranks. Exchanges placements and addresses, connects.
  static Result<std::unique_ptr<Communicator>> create(std::shared_ptr<Runtime> runtime,
                                                      std::unique_ptr<Bootstrap> bootstrap,
                                                      const CommunicatorOptions& options,
                                                      Deadline deadline);
  virtual ~Communicator() = default;

  [[nodiscard]] virtual Rank rank() const = 0;
  [[nodiscard]] virtual std::int32_t size() const = 0;
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// The same on all its ranks, and of no other communicator.
  [[nodiscard]] virtual std::uint64_t id() const = 0;
  /// Those that are threads of this process, this one too.
  [[nodiscard]] virtual std::vector<Rank> ranks_of_this_process() const = 0;
  /// Whether all are, and use one GPU.
  [[nodiscard]] virtual bool shares_one_gpu() const = 0;

  /// Starts the calls of one group: they are queued behind the calls started before and run as
  /// poll() is called. Arguments are validated here (check_group() included); nothing starts when
  /// one is wrong, and the communicator lives on. Calls of one group run in order, except that all
  /// sends and receives of a group progress together.
  virtual Status start(std::span<const Call> calls) = 0;

  enum class Progress : std::uint8_t { kIdle, kPending };
  /// Moves the started calls on without waiting; kIdle when all are complete. An error ends all of
  /// them, raises the abort state and is returned by every later call, also where nothing is left
  /// to move.
  virtual Result<Progress> poll() = 0;
  /// May sleep until poll() could do something; at most a millisecond. `spins` counts the caller's
  /// fruitless polls so far and decides, with `caller`, between spinning, yielding and sleeping.
  virtual void idle(std::uint32_t spins, CallerActivity caller) = 0;
  /// idle() for a thread that polls several communicators: adds what this one waits for, and does
  /// not wait.
  virtual void add_waits(WaitSet& waits, CallerActivity caller) = 0;

  /// start + poll until done: the path of a lone blocking call.
  virtual Status run(const Call& call) = 0;

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

  /// Flushes started calls and says goodbye. After it only getters are legal.
  virtual Status finalize(Deadline deadline) = 0;
  /// Ends all pending and future calls, here with kAborted, and on the peers with kPeerFailed that
  /// names this rank. Idempotent, any thread.
  virtual void abort(const Error& why) = 0;
  /// Ok, or the error that ended this communicator.
  [[nodiscard]] virtual Status health() const = 0;
  /// `told` is called once, by any thread, when an error ends this communicator; at once if one
  /// has. It must not wait. One; nullptr removes it and returns only when no call is under way.
  virtual void on_end(std::function<void()> told) = 0;
  /// Of the control plane: collective over the ranks, for what is set up beside this communicator.
  /// Returns every rank's bytes.
  virtual Result<std::vector<Blob>> all_gather(Blob mine, Deadline deadline) = 0;
  /// 32 secret bytes that its ranks share.
  [[nodiscard]] virtual std::span<const std::byte> key() const = 0;

  /// From the next call on, `algorithm` runs the calls of this collective that it can run and has
  /// room for (one that is only_by_name fails where it has none); "" leaves the choice to the
  /// library again. `kernel_reads`: whether the kernel is to
  /// read large inputs where it can; none: as the library thinks. All ranks have to ask for the
  /// same between the same calls. kInvalidUsage while calls are under way.
  virtual Status ask_for_algorithm(Collective collective, std::string_view algorithm,
                                   std::optional<bool> kernel_reads) = 0;
  /// Algorithm that would run `call`, for logs and `tutti bench`: "one_shot", "two_shot" ...
  virtual Result<std::string> algorithm_for(const Call& call) = 0;
  /// The program of a collective where all ranks reach all buffers, with ProgramProtocol::kDirect;
  /// `in_place`: of all ranks' buffers. Null where there is none. Any thread may ask.
  virtual Result<std::shared_ptr<const lower::Lowered>> direct_program(const Call& call,
                                                                       bool in_place) const = 0;
  /// The programs of a collective with this protocol, kPublished or kStaged, for GPUs that all
  /// reach each other; best first, the same on all ranks. Any thread may ask.
  virtual Result<std::vector<PeerPrograms>> peer_programs(
      const Call& call, lower::ProgramProtocol protocol) const = 0;
  /// A collective is enqueued for GPUs that run it by themselves: kInvalidUsage, which names the
  /// peer and both calls, where a rank of this host was seen to make another one. `is_captured`: it
  /// goes into a graph, and who replays that how often is not known, so nothing is compared any
  /// more.
  virtual Status announce(const Call& call, bool is_captured) = 0;
  /// Microseconds that the calls of one group would take, by the cost model
  /// (src/cost/predict.hpp) and the calibration of rank 0, or the default one. Nothing is started;
  /// the calls must be valid. kUnsupported where the model cannot tell.
  virtual Result<double> predict(std::span<const Call> calls) = 0;
  /// Transports in use between the ranks: {"shm"}, {"shm","tcp"} ...
  [[nodiscard]] virtual std::vector<std::string> transports() const = 0;
  [[nodiscard]] virtual std::int32_t hosts() const = 0;
  /// Of each rank, numbered from 0 in the order of their first ranks.
  [[nodiscard]] virtual std::span<const std::int32_t> host_of_ranks() const = 0;
  /// What the host of `rank`, which exists, calls itself.
  [[nodiscard]] virtual const std::string& host_name(Rank rank) const = 0;
  /// What the calls of `collective` have done here. Any thread.
  [[nodiscard]] virtual CallTotals totals(Collective collective) const = 0;
  /// The call that has begun here and is not complete, if there is one. Any thread.
  [[nodiscard]] virtual std::optional<CallUnderWay> under_way() const = 0;
  /// The machines that the ranks run on, and where on them; the same on every rank.
  [[nodiscard]] virtual const topo::JobTopology& topology() const = 0;
};

/// Polls several communicators, each with started calls, until all are idle: what ncclGroupEnd
/// does. After an error, which ends all that are not idle yet, none touches a caller's buffer.
/// `caller_activity` is asked before each wait; without it the callers wait.
Status run_group(std::span<Communicator* const> communicators,
                 const std::function<CallerActivity()>& caller_activity = {});

}  // namespace tutti
