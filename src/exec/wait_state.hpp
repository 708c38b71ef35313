// What a rank's thread waits for, and how.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/waiter.hpp"
#include "src/transport/aggregation.hpp"
#include "src/transport/transport.hpp"
#include "tutti/types.hpp"

namespace tutti::exec {

/// One per team, used by its thread. An operation says after a poll what it is blocked on; idle()
/// then waits for that. Resource.
class WaitState {
 public:
  /// `connections`, of unmapped peers, also end a sleep. They outlive this.
  explicit WaitState(const std::vector<Connection*>& connections) : connections_(connections) {}
  WaitState(const WaitState&) = delete;
  WaitState& operator=(const WaitState&) = delete;

  /// Ends a sleep, too, until forget_trees().
  void add_tree(const AggregationTree& tree) { trees_.push_back(&tree); }
  void forget_trees() { trees_.clear(); }

  /// This machine runs `ranks` ranks of the team, which have `cpus` CPUs together.
  void set_cpus(int ranks, int cpus);

  /// Where the running operation last found nothing to do.
  void blocked_on(Rank peer, const WaitWord& word) {
    if (word.word != blocked_.word || word.seen != blocked_.seen) fruitless_ = 0;
    on_several_ = false;
    peer_ = peer;
    blocked_ = word;
  }
  void blocked_on_network(Rank peer) { blocked_on(peer, {}); }
  /// The same where a change of any of `words` helps; no words: only the network does. `moved`:
  /// something has moved since the call before.
  void blocked_on_any(Rank peer, std::span<const WaitWord> words, bool moved);
  /// The peer that was named last.
  [[nodiscard]] Rank waiting_for() const { return peer_; }
  /// Something moved: the next wait begins with spinning again.
  void moved() { fruitless_ = 0; }

  /// Fruitless poll number `polls` of this wait: spins, yields, or sleeps up to a millisecond. A
  /// wait for something new begins with spinning again.
  void idle(std::uint32_t polls, CallerActivity caller);
  /// For a thread that polls several teams: adds what this one waits for, and does not wait.
  void add_to(WaitSet& waits, CallerActivity caller);

 private:
  [[nodiscard]] const WaitPolicy& policy(CallerActivity caller) const {
    return caller == CallerActivity::kWaits ? alone_ : with_computing_caller_;
  }
  void add_wakers(WaitSet& waits) const;

  const std::vector<Connection*>& connections_;
  std::vector<const AggregationTree*> trees_;
  WaitPolicy alone_;
  WaitPolicy with_computing_caller_;  ///< while another thread of this rank computes
  WaitWord blocked_;
  std::vector<WaitWord> also_blocked_;  ///< while on_several_
  bool on_several_ = false;
  Rank peer_ = kNoRank;
  std::uint32_t fruitless_ = 0;  ///< waits since anything changed
};

}  // namespace tutti::exec
