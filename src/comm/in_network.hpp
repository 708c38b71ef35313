// Which calls the network runs, and what happens where it breaks in the middle.
//
// A call that the network has run is not complete yet: the ranks tell each other how it went
// (report()). If all have their results, it is. Else all ranks run the call again without the
// network, from the same inputs; and if a tree broke, later calls as well. So no rank returns while
// another may still need its input.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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

/// One per communicator; used by its thread.
class InNetwork {
 public:
  /// `algorithm`: of join_trees(). `team` outlives it.
  InNetwork(exec::Team& team, const ir::Algorithm* algorithm, InNetworkUse use)
      : team_(team), algorithm_(algorithm), use_(use) {}

  /// Whether the network is to run `call`. The same on all ranks.
  [[nodiscard]] bool takes(const Call& call) const;
  [[nodiscard]] const ir::Algorithm& algorithm() const { return *algorithm_; }

  /// The network has run a call: report() is next.
  void has_run() { phase_ = Phase::kReport; }
  [[nodiscard]] bool reports() const { return phase_ == Phase::kReport; }
  /// An all-gather of the states of the trees. It has to run, then decide() has to be called.
  Call report();
  /// Whether the call is complete; else it falls back.
  bool decide();
  /// Whether the call that begins was in the network and failed there.
  [[nodiscard]] bool falls_back() const { return phase_ == Phase::kFallBack; }
  /// A call is over.
  void end_call() { phase_ = Phase::kNone; }
  /// No more calls go there: a plan does not fit. The same on all ranks.
  void give_up(const std::string& why);

 private:
  enum class Phase : std::uint8_t { kNone, kReport, kFallBack };

  exec::Team& team_;
  const ir::Algorithm* algorithm_;  // null: none, or no more
  const InNetworkUse use_;
  Phase phase_ = Phase::kNone;
  enum Outcome : std::int32_t { kBroken, kUnsummed, kRight };
  std::int32_t outcome_ = kRight;
  std::vector<std::int32_t> outcomes_;  // of all ranks
};

}  // namespace tutti
