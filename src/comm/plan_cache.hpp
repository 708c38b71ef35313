// From a call to a bound plan: choose, generate, verify, lower, bind; each done once per shape,
// and all but the last once per process.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>

#include "src/comm/communicator.hpp"
#include "src/comm/program_library.hpp"
#include "src/cost/tuner.hpp"
#include "src/exec/plan.hpp"
#include "src/exec/team.hpp"
#include "src/lower/lower.hpp"

namespace tutti {

/// What a launch needs.
struct BoundPlan {
  std::unique_ptr<exec::Plan> direct;  ///< see exec::Plans; may be null
  std::unique_ptr<exec::Plan> plan;
  bool declines_direct = false;
  [[nodiscard]] exec::Plans plans() const { return {direct.get(), plan.get(), declines_direct}; }
  /// The ranks in place and the ranks out of place would not understand each other under this
  /// algorithm, so this rank, in place, runs the out-of-place program on a copy of its input.
  bool copies_input = false;
};

/// One per communicator; used by its thread. Keeps the most recently used plans.
class PlanCache {
 public:
  PlanCache(exec::Team& team, Tuner tuner, ProgramLibrary& library)
      : team_(team), tuner_(std::move(tuner)), library_(library) {}

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
  using LoweredPointer = ProgramLibrary::Program;
  /// What one call may be lowered to. The same on all ranks, whether in place or not.
  struct Programs {
    LoweredPointer direct;  ///< where all buffers are mapped; may be null
    LoweredPointer otherwise;
    bool declines_direct = false;  ///< this rank, in place, cannot run `direct`
  };

  Result<BoundPlan> make(const Call& call, bool in_place);
  Result<Programs> programs_for(const Choice& choice, const ir::Request& request, bool scales_input,
                                const exec::LargestBuffers& largest);
  Result<Programs> in_place_variants(const Programs& programs, const Choice& choice,
                                     const ir::Request& request, bool scales_input);
  Result<LoweredPointer> lowered(const ir::Algorithm& algorithm, const ir::Request& request,
                                 const lower::LowerOptions& options);
  Result<LoweredPointer> lower_anew(const ir::Algorithm& algorithm, const ir::Request& request,
                                    const lower::LowerOptions& options) const;

  static constexpr std::size_t kMostPlans = 256;

  exec::Team& team_;
  Tuner tuner_;
  ProgramLibrary& library_;
  std::list<Entry> recent_;  ///< most recent first
  std::map<Key, std::list<Entry>::iterator> plans_;
  std::map<ProgramLibrary::Key, LoweredPointer> lowered_;  ///< null: does not fit the protocol
};

}  // namespace tutti
