// From a call to a bound plan: choose, generate, verify, lower, bind. Each is done once per shape,
// and all but the last once per process.
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

#include "src/comm/group_context.hpp"
#include "src/comm/program_library.hpp"
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
  PlanCache(exec::Team& team, Trials& trials, Tuner tuner, ProgramLibrary& library)
      : team_(team),
        layout_(ir::Layout::of_hosts(team.placement().host)),
        trials_(trials),
        tuner_(std::move(tuner)),
        library_(library) {}

  /// `in_place`: of this rank's buffers. The plan stays valid until the next call of get(). Must
  /// not be called while trials are due.
  Result<BoundPlan*> get(const Call& call, bool in_place);
  /// The plan of the exchange of trials' times (Trials::gather()), which is the same out-of-place
  /// call each time.
  Result<BoundPlan*> exchange(const Call& call);
  /// See Communicator::ask_for_algorithm(); no plan is in use.
  Status ask_for(Collective collective, std::string_view algorithm,
                 std::optional<bool> kernel_reads);
  /// The algorithm that runs `call`, or would run it if nothing is measured yet. Any thread may
  /// ask.
  Result<const ir::Algorithm*> algorithm_for(const Call& call) const;
  /// See GroupContext::direct_program(). Any thread may ask.
  Result<ProgramLibrary::Program> direct_program(const Call& call, bool in_place) const;
  /// See GroupContext::peer_programs(). Any thread may ask.
  Result<std::vector<PeerPrograms>> peer_programs(const Call& call,
                                                  lower::ProgramProtocol protocol) const;
  /// Microseconds that the call of a collective would take, by the cost model.
  Result<double> predict(const Call& call, const Calibration& calibration) const;

 private:
  struct Key {
    Collective collective;
    DataType type;
    ReduceOp op;  ///< kSum where nothing is reduced
    bool in_place;
    Rank root;
    std::size_t count;
    std::vector<std::size_t> blocks;  ///< counts, then starts; none where blocks have one size
    std::uint32_t compression = 0;    ///< as in CallSignature
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

  /// Lowering a call needs this. The same on all ranks.
  struct Shape {
    ir::Request request;  ///< out of place
    bool scales_input = false;
    bool uneven_blocks = false;
    exec::LargestBuffers largest;
    /// For memory of GPUs that reach each other, whatever their hosts.
    bool all_mapped = false;
    std::optional<ir::CompressedMessages> compressed = {};  ///< of compressed calls
  };
  /// A Way (measured_table.hpp) with its algorithm.
  struct Option {
    const ir::Algorithm* algorithm = nullptr;
    bool kernel_reads = false;
  };
  /// A plan to make.
  struct Task {
    Shape shape;
    Option option;
    const ir::Algorithm* mapped = nullptr;  ///< of Choice
    bool on_trial = false;
    std::string reason;
  };

  Result<BoundPlan*> find_out(const Key& key, const Call& call);
  BoundPlan* keep(const Key& key, BoundPlan bound);
  Result<Task> compressed_task(const Call& call, Shape shape) const;
  Result<bool> can_compress(const ir::Algorithm& algorithm, const Call& call, Shape& shape) const;
  Result<Choice> choose(const Call& call) const;
  Result<Choice> choose_what_fits(Choice choice, const Situation& situation,
                                  const Shape& shape) const;
  [[nodiscard]] Situation situation_of(const Call& call) const;
  [[nodiscard]] Shape shape_of(const Call& call) const;
  static CallClass class_of(const Shape& shape);
  [[nodiscard]] lower::Placement placement_for(const Shape& shape) const;
  [[nodiscard]] bool may_try(const Choice& choice) const;
  Result<std::vector<Option>> options_for(const Choice& choice, const Shape& shape);
  Result<bool> can_run(const Option& option, const Shape& shape) const;
  Result<bool> can_stage(const ir::Algorithm& algorithm, const Shape& shape) const;
  Result<LoweredPointer> kernel_reads_for(const ir::Algorithm& algorithm, const Shape& shape) const;
  Result<LoweredPointer> published_for(const ir::Algorithm& algorithm, const Shape& shape) const;
  Result<BoundPlan> make(const Call& call, bool in_place, const Task& task);
  Result<Programs> programs_for(const Task& task);
  static const ir::Algorithm& mapped_algorithm(const Task& task);
  Result<Programs> in_place_variants(const Programs& programs, const Task& task,
                                     const ir::Request& request);
  Result<LoweredPointer> out_of_place(const ir::Algorithm& algorithm, const Shape& shape,
                                      lower::ProgramProtocol protocol,
                                      bool stores_to_peers = true) const;
  Result<LoweredPointer> lowered(const ir::Algorithm& algorithm, const ir::Request& request,
                                 const Shape& shape, lower::ProgramProtocol protocol,
                                 bool stores_to_peers) const;
  Result<LoweredPointer> lower_anew(const ir::Algorithm& algorithm, const ir::Request& request,
                                    const Shape& shape, const lower::LowerOptions& options) const;

  static constexpr std::size_t kMostPlans = 256;

  exec::Team& team_;
  const ir::Layout layout_;
  Trials& trials_;
  /// Guards tuner_, which remembers choices, and lowered_: any thread's algorithm_for() uses both.
  mutable std::mutex mutex_;
  Tuner tuner_;
  ProgramLibrary& library_;
  std::list<Entry> recent_;  ///< most recent first
  std::map<Key, std::list<Entry>::iterator> plans_;
  std::map<std::pair<Key, std::size_t>, BoundPlan> on_trial_;  ///< by key and way
  std::optional<BoundPlan> exchange_;
  /// Null: does not fit the protocol.
  mutable std::map<ProgramLibrary::Key, LoweredPointer> lowered_;
};

}  // namespace tutti
