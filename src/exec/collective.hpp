// Runs a rank's collective calls as resumable polls that never wait. It locks and allocates only
// when a call needs staging memory and must get some.
//
// A call has up to four parts, each in a file of its own:
//
//   entering    peers learn that this rank is in the call          entries.hpp
//   agreeing    if needed: are all buffers mapped?                 direct_buffers.hpp
//   running     a program of one round, or of many slices          one_round.hpp, staged.hpp
//   leaving     when no peer needs this rank any more              progress_counters.hpp
#pragma once

#include <cstdint>

#include "src/exec/direct_buffers.hpp"
#include "src/exec/entries.hpp"
#include "src/exec/launch.hpp"
#include "src/exec/one_round.hpp"
#include "src/exec/plan.hpp"
#include "src/exec/progress_counters.hpp"
#include "src/exec/staged.hpp"
#include "src/exec/team.hpp"

namespace tutti::exec {

enum class Poll : std::uint8_t { kPending, kDone };

/// Resource. One per team, whose members must all be known. Reused from call to call.
class CollectiveRun {
 public:
  explicit CollectiveRun(Team& team) : team_(team) {}
  CollectiveRun(const CollectiveRun&) = delete;
  CollectiveRun& operator=(const CollectiveRun&) = delete;

  /// The previous run must be over. The plans and `args` must outlive the run. Every rank starts
  /// with the same plans.
  void start(const Plans& plans, const CollectiveArgs& args);
  Result<Poll> poll();
  /// To be called between polls now and then. An error if the run waits for a rank that has left.
  Status check_peers();
  /// Number of runs started.
  [[nodiscard]] std::uint64_t calls() const { return entries_.sequence(); }
  /// See Entries::recent().
  [[nodiscard]] std::vector<CallSignature> recent(std::size_t most) const {
    return entries_.recent(most);
  }
  /// Whether the finished run ran Plans::direct.
  [[nodiscard]] bool ran_direct() const { return &launch_.plan() == plans_.direct; }
  /// The plan that the finished run ran.
  [[nodiscard]] const Plan& plan() const { return launch_.plan(); }
  /// After an error: the run no longer touches the buffers.
  void cancel();

 private:
  enum class Phase : std::uint8_t {
    kIdle,
    kEnter,
    kAgree,       ///< waits until ranks agree on one of two plans
    kOneRound,    ///< runs a program of one round
    kTakeMemory,  ///< waits for staging memory
    kStaged,      ///< runs a staged program
    kDrain,       ///< waits for its own messages
    kFarewell     ///< waits for peers that touch this rank's buffers
  };
  bool enter();
  Result<bool> agree();
  void begin();
  void leave();

  Team& team_;
  Plans plans_;
  Phase phase_ = Phase::kIdle;
  Launch launch_{team_};
  Entries entries_{team_, launch_};
  ProgressCounters progress_{team_};
  DirectBuffers buffers_{team_, launch_, entries_, progress_};
  OneRoundRun one_round_{launch_, entries_, buffers_};
  StagedRun staged_{team_, launch_, entries_, progress_};
};

}  // namespace tutti::exec
