// From a call to a bound plan: choose, generate, verify, lower, bind; each done once per shape.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <tuple>

#include "src/comm/communicator.hpp"
#include "src/cost/tuner.hpp"
#include "src/exec/plan.hpp"
#include "src/exec/team.hpp"

namespace tutti {

/// A plan and what its launch must know.
struct BoundPlan {
  std::unique_ptr<exec::Plan> plan;
  /// The ranks in place and the ranks out of place would not understand each other under this
  /// algorithm, so this rank, in place, runs the out-of-place program on a copy of its input.
  bool copies_input = false;
};

/// One per communicator; used by its thread. Keeps the most recently used plans.
class PlanCache {
 public:
  PlanCache(exec::Team& team, Tuner tuner) : team_(team), tuner_(std::move(tuner)) {}

  /// `in_place`: of this rank's buffers. The plan stays valid until the next call of get().
  Result<BoundPlan*> get(const Call& call, bool in_place);
  Result<Choice> choose(const Call& call) const;

 private:
  struct Key {
    Collective collective;
    DataType type;
    bool in_place, scales_input;
    Rank root;
    std::size_t count;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Entry {
    Key key;
    BoundPlan bound;
  };
  /// What a schedule can be lowered to, whatever the count and type.
  struct Abilities {
    bool publishes, reads_directly;
  };
  using ScheduleKey = std::tuple<std::string_view, Collective, Rank, bool>;
  using LoweredKey = std::tuple<ScheduleKey, bool, lower::Protocol>;

  Result<BoundPlan> make(const Call& call, bool in_place);
  Result<std::shared_ptr<const lower::Lowered>> lowered(const ir::Algorithm& algorithm,
                                                        const ir::Request& request,
                                                        bool scales_input,
                                                        const exec::LargestBuffers& largest);
  [[nodiscard]] lower::Protocol protocol_for(Abilities abilities, const ir::Request& request,
                                             const exec::LargestBuffers& largest) const;

  static constexpr std::size_t kMostPlans = 256;

  exec::Team& team_;
  Tuner tuner_;
  std::list<Entry> recent_;  ///< most recent first
  std::map<Key, std::list<Entry>::iterator> plans_;
  std::map<ScheduleKey, Abilities> abilities_;
  std::map<LoweredKey, std::shared_ptr<const lower::Lowered>> lowered_;
};

}  // namespace tutti
