// Looks after the peers that a call waits for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/clock.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/comm/active_call.hpp"
#include "src/comm/group_end.hpp"
#include "src/exec/team.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// One per communicator; used by its thread, which asks it on fruitless polls. Resource.
class LivenessWatch {
 public:
  /// `timeout_s`: TUTTI_TIMEOUT, 0: none. `who`: for log lines. The others outlive this.
  LivenessWatch(exec::Team& team, Bootstrap& bootstrap, const GroupEnd& end, double timeout_s,
                std::string who)
      : team_(team),
        bootstrap_(bootstrap),
        end_(end),
        timeout_s_(timeout_s),
        who_(std::move(who)) {}
  LivenessWatch(const LivenessWatch&) = delete;
  LivenessWatch& operator=(const LivenessWatch&) = delete;

  /// A call begins. The one before is over.
  void restart() {
    clock_started_ = false;
    polls_ = 0;
    suspect_ = kNoRank;
  }
  /// The call is over.
  void rest() {
    if (told_) [[unlikely]]
      withdraw();
  }
  /// A fruitless poll of `call`; looks at the clock now and then. An error: a peer that it waits
  /// for cannot help any more, or the timeout has passed.
  Status check(ActiveCall& call) {
    if (++polls_ < kPollsBeforeClock || polls_ % kPollsBetweenClocks != 0) return ok_status();
    return look(call, Clock::now());
  }
  /// Whether to go on after `error` of a poll. A peer that cancelled its half of a transfer, or
  /// left, gave up for a reason, which travels on another connection: it may be the death of a
  /// third rank. True until that is known here, or should have been.
  bool reason_may_come(const Error& error);

 private:
  // Most waits end before the first look at the clock, which costs half a poll. Later polls may
  // each come with a sleep of a millisecond, the turn of a busy process, or the polls of many
  // ranks.
  static constexpr std::uint32_t kPollsBeforeClock = 64, kPollsBetweenClocks = 16;

  Status look(ActiveCall& call, TimePoint now);
  Status look_at(Rank peer, TimePoint now);
  void tell(const ActiveCall& call, TimePoint now);
  void withdraw();
  [[nodiscard]] std::string awaited() const;

  exec::Team& team_;
  Bootstrap& bootstrap_;
  const GroupEnd& end_;
  const double timeout_s_;
  const std::string who_;

  std::uint32_t polls_ = 0;
  bool clock_started_ = false, warned_ = false;
  TimePoint started_, looked_, looked_at_lives_;
  Rank suspect_ = kNoRank;  ///< seen to have ended or given up at the last look
  TimePoint suspected_;
  bool told_ = false;  ///< the peers know what this rank waits in
  Rank told_of_ = kNoRank;
  TimePoint told_at_;                  ///< or when the call began
  std::optional<TimePoint> given_up_;  ///< when a peer was seen to give up
};

}  // namespace tutti
