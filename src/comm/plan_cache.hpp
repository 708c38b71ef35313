// From a call to a bound plan: choose, generate, verify, lower, bind. Choosing and binding are done
// once for calls of one size and kind, the rest once for each program (call_programs.hpp).
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/comm/call_programs.hpp"
#include "src/comm/group_context.hpp"
#include "src/comm/trials.hpp"
#include "src/cost/calibration.hpp"
#include "src/cost/tuner.hpp"
#include "src/exec/plan.hpp"
#include "src/exec/team.hpp"
#include "src/lower/lower.hpp"

namespace tutti {

/// What a launch needs. Resource.
struct BoundPlan {
  std::unique_ptr<exec::Plan> direct;  ///< see exec::Plans; may be null
  std::unique_ptr<exec::Plan> plan;
  bool declines_direct = false;
  [[nodiscard]] exec::Plans plans() const { return {direct.get(), plan.get(), declines_direct}; }
  /// Under this algorithm ranks in place and ranks out of place cannot work together. So this rank,
  /// which is in place, runs the out-of-place program on a copy of its input.
  bool copies_input = false;
  bool on_trial = false;  ///< to be timed: see trials.hpp
};

/// One per communicator; used by its thread. Keeps the most recently used plans.
class PlanCache {
 public:
  /// `team`, `trials` and `library` outlive it.
  PlanCache(exec::Team& team, Trials& trials, Tuner tuner, ProgramLibrary& library);

  /// `in_place`: of this rank's buffers. The plan stays valid until the next call of get(). Must
  /// not be called while trials are due.
  Result<BoundPlan*> get(const Call& call, bool in_place);
  /// The plan of the exchange of trials' times (Trials::gather()), which is the same out-of-place
  /// call each time.
  Result<BoundPlan*> exchange(const Call& call);
  /// The plan of `call` by `algorithm`, which lets the network add; out of place. Null, the same on
  /// all ranks, if it does not fit or another algorithm is asked for.
  Result<BoundPlan*> in_network(const Call& call, const ir::Algorithm& algorithm);
  /// Whether the settings and the trees let in_network() run it.
  Result<bool> fits_network(const Call& call, const ir::Algorithm& algorithm) const;
  /// See Communicator::ask_for_algorithm(); no plan is in use.
  Status ask_for(Collective collective, std::string_view algorithm,
                 std::optional<bool> kernel_reads);
  /// The trees change: no plan of in_network() is used any more.
  void forget_in_network();
  /// The algorithm that runs `call`, or would run it if nothing is measured yet. Any thread may
  /// ask, and may wait until its program is lowered.
  Result<const ir::Algorithm*> algorithm_for(const Call& call) const;
  /// See GroupContext::only_messages(). Any thread may ask.
  Result<bool> only_messages(const Call& call) const;
  /// See GroupContext::direct_program(). Any thread may ask.
  Result<ProgramLibrary::Program> direct_program(const Call& call, bool in_place) const;
  /// See GroupContext::peer_programs(). Any thread may ask.
  Result<std::vector<PeerPrograms>> peer_programs(const Call& call,
                                                  lower::ProgramProtocol protocol) const;
  /// Microseconds that the call of a collective would take, by the cost model.
  Result<double> predict(const Call& call, const Calibration& calibration) const;

 private:
  /// All that a plan depends on: calls that run differently must not share one.
  struct Key {
    Collective collective;
    DataType type;
    ReduceOp op;  ///< kSum where nothing is reduced
    bool in_place;
    Rank root;
    std::size_t count;
    std::vector<std::size_t> blocks;  ///< counts, then starts; none where blocks have one size
    std::uint32_t compression = 0;    ///< as in CallSignature
    bool for_devices = false;
    std::int32_t trial = kSettled;  ///< the way that is tried, or one of these
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  static constexpr std::int32_t kSettled = -1, kExchange = -2, kInNetwork = -3;
  struct Entry {
    Key key;
    BoundPlan bound;
  };
  using Program = CallPrograms::Program;
  /// A Way (measured_table.hpp) with its algorithm.
  struct Option {
    const ir::Algorithm* algorithm = nullptr;
    bool kernel_reads = false;
  };
  /// A candidate that lowers and fits.
  struct Taken {
    Candidate candidate;
    Program program;
  };
  /// What a call runs, of all that `choice` proposes.
  struct Decision {
    Choice choice;
    Option option;
    Taken taken;
  };
  /// What one call may be lowered to. The same on all ranks, whether in place or not.
  struct Programs {
    Program direct;  ///< where all buffers are mapped; may be null
    Program otherwise;
    bool declines_direct = false;  ///< this rank, in place, cannot run `direct`
  };
  /// A plan to make.
  struct Task {
    CallShape shape;
    Taken taken;
    const ir::Algorithm* mapped = nullptr;  ///< what runs in mapped buffers
    bool on_trial = false;
    std::string reason;
  };

  static Key key_of(const Call& call, bool in_place);
  static bool is_settled_for(const Key& key, const Call& call, bool in_place);
  [[nodiscard]] BoundPlan* find(const Key& key);
  void forget(const Key& key);
  Result<BoundPlan*> find_out(Key key, const Call& call);
  Result<bool> is_asked(const Call& call) const;
  Result<Program> network_program(const Call& call, const ir::Algorithm& algorithm) const;
  Result<BoundPlan*> make_and_keep(Key key, const Call& call, const Task& task);
  [[nodiscard]] Situation situation_of(const Call& call, const CallShape& shape) const;
  [[nodiscard]] CallShape shape_of(const Call& call) const;
  static CallClass class_of(const CallShape& shape);
  [[nodiscard]] std::vector<Candidate> candidates_for(const Option& option,
                                                      const CallShape& shape) const;
  Result<std::optional<Taken>> take(const Option& option, const CallShape& shape,
                                    std::string& why_not) const;
  Result<std::optional<Decision>> decide_by(Choice choice, const CallShape& shape,
                                            std::string& why_not) const;
  Result<Decision> decide(const Call& call, const CallShape& shape) const;
  [[nodiscard]] const ir::Algorithm* settled(const Decision& decision,
                                             const CallShape& shape) const;
  [[nodiscard]] bool may_try(const Choice& choice) const;
  Result<std::vector<std::pair<Option, Taken>>> options_for(const Decision& decision,
                                                            const CallShape& shape) const;
  Result<Choice> choose(const Situation& situation, bool compressed) const;
  Result<BoundPlan> make(const Call& call, bool in_place, const Task& task);
  Result<Programs> programs_for(const Task& task) const;
  Result<Programs> in_place_variants(const Programs& programs, const Task& task,
                                     const ir::Request& request) const;

  static constexpr std::size_t kMostPlans = 256;

  exec::Team& team_;
  const ir::Layout layout_;
  Trials& trials_;
  mutable std::mutex mutex_;  ///< of tuner_, which remembers choices: any thread may ask
  Tuner tuner_;
  mutable CallPrograms programs_;
  std::list<Entry> recent_;  ///< most recent first
  std::map<Key, std::list<Entry>::iterator> plans_;
};

}  // namespace tutti
