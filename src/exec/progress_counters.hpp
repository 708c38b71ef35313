// How far the ranks of a host are in the calls that they run op by op.
//
// Each rank has one counter, `progress`, in the block that its peers map (lower/program.hpp has the
// words). It never goes back. Programs are static, so every rank knows where every other one's
// counter stands when a call begins and when it ends, and a wait for an op of a peer is a
// comparison of two numbers. Calls with Protocol::kPublished end with their only round, and leave
// the counters where they are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/exec/plan.hpp"
#include "src/exec/team.hpp"

namespace tutti::exec {

/// Resource; one per team. Positions are counted from the start of the call.
class ProgressCounters {
 public:
  explicit ProgressCounters(Team& team);

  /// Calls left so far.
  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  /// Whether a mapped peer has come to `position` of the call that begins or runs, 0: whether it
  /// has left the call before; else this rank is blocked on it.
  bool reached(Rank peer, std::uint64_t position) { return passed(peer, starts_[peer] + position); }
  /// The same: whether it has left the call before last.
  bool left_call_before_last(Rank peer) { return passed(peer, ends_[calls_ % 2][peer]); }
  /// This rank has come to `position`.
  void publish(std::uint64_t position);
  /// This rank leaves a call that ran `plan`; publish(0) then tells its peers. Returns where each
  /// rank's counter stands when it has left, too.
  std::span<const std::uint64_t> leave(const Plan& plan);

 private:
  bool passed(Rank peer, std::uint64_t progress);

  Team& team_;
  std::uint64_t calls_ = 0;
  // Per rank, in counts since the beginning:
  std::vector<std::uint64_t> starts_;   ///< of this call
  std::vector<std::uint64_t> ends_[2];  ///< of the last even and the last odd call that was left
  std::vector<std::uint64_t> seen_;
};

}  // namespace tutti::exec
