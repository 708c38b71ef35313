// How far the ranks of a host are in calls that they run op by op.
//
// Each rank has one counter, `progress`, in the block that its peers map (lower/program.hpp defines
// the words). It never decreases. Programs are static, so every rank knows the value of every other
// rank's counter at the beginning and at the end of a call. A wait for a peer's op compares two
// numbers. Calls with ProgramProtocol::kPublished end with their only round and do not change the
// counters.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/exec/plan.hpp"
#include "src/exec/team.hpp"

namespace tutti::exec {

/// Resource. One per team. Positions count from the start of the call.
class ProgressCounters {
 public:
  explicit ProgressCounters(Team& team);

  /// Number of calls left so far.
  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  /// Whether a mapped peer has reached `position` of the current call; 0: whether it has left the
  /// previous call. If not, this rank is blocked on it.
  bool reached(Rank peer, std::uint64_t position) { return passed(peer, starts_[peer] + position); }
  /// The same, for whether the peer has left the call before last.
  bool left_call_before_last(Rank peer) { return passed(peer, ends_[calls_ % 2][peer]); }
  /// This rank has reached `position`.
  void publish(std::uint64_t position);
  /// This rank leaves a call that ran `plan`; publish(0) then tells its peers. Returns the value of
  /// the counter of each mapped rank when that rank has left, too.
  std::span<const std::uint64_t> leave(const Plan& plan);

 private:
  bool passed(Rank peer, std::uint64_t progress);

  Team& team_;
  std::uint64_t calls_ = 0;
  // Per rank on this host, in counts since the beginning:
  std::vector<std::uint64_t> starts_;  ///< at the start of this call
  std::vector<std::uint64_t>
      ends_[2];  ///< at the end of the last even and the last odd call that this rank left
  std::vector<std::uint64_t> seen_;
};

}  // namespace tutti::exec
