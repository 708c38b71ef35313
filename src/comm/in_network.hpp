// Which calls the network runs, and what happens where it breaks in the middle.
//
// A call that the network has run is not complete yet: the ranks tell each other how it went
// (report()). If all have their results, it is. Else all ranks run the call again without the
// network, from the same inputs; and if a tree broke, later calls as well. So no rank returns while
// another may still need its input.
//
// After 32 calls that the network would have run, the ranks ask rank 0 whether it may be back. If
// so, they join their trees anew. Where it breaks again, they ask half as often. Joining blocks: so
// only if the caller of each waits for this call alone (caller_waits()). Two communicators in a
// group could wait for each other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/comm/call.hpp"
#include "src/exec/team.hpp"
#include "src/ir/algorithm.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// TUTTI_INNETWORK.
enum class InNetworkUse : std::uint8_t {
  kOff,
  kAuto,  ///< what gives the same bits as any other algorithm
  kSum,   ///< sums of floats, too, whose order of addition is the network's
};
/// `deterministic`: sums are in the order of ranks, which the network does not know.
InNetworkUse in_network_use(std::string_view setting, bool deterministic);

/// What the schedules of in_network() make the trees do for a collective that they support.
TreeForm tree_form_of(Collective collective);

/// How many bits the values of a call have in the network (TreePart::bits): fewer than 32 where it
/// is compressed in a format that can be added while it is encoded. None: the network has no such
/// call.
std::optional<unsigned> network_bits(const Call& call);

/// One per communicator; used by its thread.
class InNetwork {
 public:
  struct Return {
    /// Aggregation's; empty, the same on all ranks, if what breaks never comes back.
    std::function<bool()> may_be_back;
    std::function<Result<const ir::Algorithm*>()> rejoin;  ///< makes the trees anew: join_trees()
  };
  /// `algorithm`: of join_trees(). `team` outlives it.
  InNetwork(exec::Team& team, const ir::Algorithm* algorithm, InNetworkUse use, Return back)
      : team_(team), algorithm_(algorithm), lost_(algorithm), use_(use), back_(std::move(back)) {}

  /// Whether the network is to run `call`. The same on all ranks.
  [[nodiscard]] bool takes(const Call& call) const {
    return algorithm_ != nullptr && phase_ == Phase::kNone && would_take(call, algorithm_);
  }
  [[nodiscard]] const ir::Algorithm& algorithm() const { return *algorithm_; }
  /// Whether one tree joins all ranks, so that no rank's values are added up before.
  [[nodiscard]] bool joins_all_ranks() const;

  /// Whether `call` is one of those after some of which the ranks ask.
  [[nodiscard]] bool counts(const Call& call) const {
    return algorithm_ == nullptr && lost_ != nullptr && would_take(call, lost_);
  }
  /// Whether the caller does nothing else until its call is complete.
  void caller_waits(bool waits) { caller_waits_ = waits; }
  /// Whether the ranks are to ask before `call` if the network is back. Counts the call.
  [[nodiscard]] bool asks_before(const Call& call) { return counts(call) && is_time_to_ask(); }
  /// The network has run a call: report() is next.
  void has_run() { phase_ = Phase::kReport; }
  [[nodiscard]] bool reports() const { return phase_ == Phase::kReport || phase_ == Phase::kAsk; }
  /// An all-gather of the states of the trees. It has to run, then decide() has to be called.
  Call report();
  /// Whether the call is complete; else it begins again: without the network, or, if the ranks have
  /// asked, with or without. An error if the control plane fails.
  Result<bool> decide();
  /// Whether the call that begins was in the network and failed there.
  [[nodiscard]] bool falls_back() const { return phase_ == Phase::kFallBack; }
  /// A call is over.
  void end_call() {
    phase_ = Phase::kNone;
    has_asked_ = false;
  }

 private:
  enum class Phase : std::uint8_t { kNone, kReport, kFallBack, kAsk };
  [[nodiscard]] bool would_take(const Call& call, const ir::Algorithm* algorithm) const;
  bool is_time_to_ask();
  Status come_back();
  /// No more calls go there.
  void give_up(const std::string& why);
  void ask_less();

  exec::Team& team_;
  const ir::Algorithm* algorithm_;  // null: none, or no more
  const ir::Algorithm* lost_;       // what it was
  const InNetworkUse use_;
  const Return back_;
  static constexpr std::uint64_t kAskFirst = 32, kAskLast = 1 << 14, kManyRight = 1 << 10;
  std::uint64_t missed_ = 0;  // calls since the ranks asked that the network would have run
  std::uint64_t right_ = 0;   // calls that it has run since it is back
  std::uint64_t ask_after_ = kAskFirst / 2;
  bool has_asked_ = false;  // before the call that begins
  bool caller_waits_ = false;
  Phase phase_ = Phase::kNone;
  enum Outcome : std::int32_t { kBroken, kUnsummed, kRight };
  std::int32_t outcome_ = kRight;
  std::vector<std::int32_t> outcomes_;  // of all ranks
};

}  // namespace tutti
