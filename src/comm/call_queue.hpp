// The calls that were started on a rank, run in their order.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/waiter.hpp"
#include "src/comm/active_call.hpp"
#include "src/comm/call.hpp"
#include "src/comm/coded_messages.hpp"
#include "src/comm/group_end.hpp"
#include "src/comm/group_facts.hpp"
#include "src/comm/group_member.hpp"
#include "src/comm/liveness_watch.hpp"
#include "src/exec/team.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// One per communicator; used by its thread. GroupMember says what start(), poll() and run()
/// promise. Resource.
class CallQueue {
 public:
  using Progress = GroupMember::Progress;

  /// All of these outlive this.
  CallQueue(const GroupFacts& facts, exec::Team& team, ActiveCall& active, LivenessWatch& watch,
            GroupEnd& end)
      : facts_(facts), team_(team), active_(active), watch_(watch), end_(end) {}
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  Status start(std::span<const Call> calls);
  Result<Progress> poll();
  Status run(const Call& call);
  Status finalize(Deadline deadline);

  /// Ok, or why there can be no more calls.
  [[nodiscard]] Status usable() const;
  [[nodiscard]] Status check_series(const Call& call) const;
  /// Whether no call is under way.
  [[nodiscard]] bool idle() const { return active_.none() && queue_.empty(); }

 private:
  struct Queued {
    Call call;
    std::vector<exec::PointToPoint> transfers;  ///< a batch of sends and receives, or none
    std::unique_ptr<CodedMessages> coded = {};  ///< those of the batch that are compressed
  };

  Status begin(const Queued& queued);
  Status run_alone();
  Status run_queued();
  Error fail(Error error);

  const GroupFacts& facts_;
  exec::Team& team_;
  ActiveCall& active_;
  LivenessWatch& watch_;
  GroupEnd& end_;
  std::deque<Queued> queue_;  ///< the call that runs is its first
  bool finalized_ = false;
};

}  // namespace tutti
