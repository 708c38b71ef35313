// Trains a model that ranks share. It keeps parameters, gradients and optimizer state as the plan
// says, moves them, and takes the same step on all ranks.
//
// The caller (training/torch, or a program) runs the model and announces what it is about to do:
//
//   engine->fill(...)                              once: all ranks get rank 0's values
//   for each step:
//     for each pass (micro-batch):
//       for each unit:  use(unit, kForward)  ... compute ...  release(unit, kForward)
//       begin_backward(is_last)
//       for each unit, in reverse:  use(unit, kBackward)  ... compute ...
//         for each parameter: write gradient(id), then ready(id)
//         release(unit, kBackward)
//       end_backward()
//     step(...)
//
// With whole parameters (kDdp, kZero1, kZero2) use() and release() do nothing, and parameter()
// never moves. Gathers and reductions run while the caller computes. Every rank must make the same
// calls in the same order. At every step the ranks compare their calls, in the message that carries
// the norm. If a rank differs, the error names it and the parameter where it did.
//
// An error on one rank ends training on all: the others are told, and get kPeerFailed with its
// text. After an error every call returns that error.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "training/checkpoint.hpp"
#include "training/pass.hpp"
#include "training/plan.hpp"
#include "training/sharded_optimizer.hpp"
#include "tutti/communicator.hpp"
#include "tutti/error.hpp"

namespace tutti::training {

struct StepOptions {
  /// Multiplies the sums of gradients. If each gradient is a sum over tokens, it is 1 / number of
  /// tokens over all ranks and passes. If the loss was scaled, divide by that scale, too. Greater
  /// than 0, equal on all ranks.
  double gradient_scale = 1;
  std::optional<double> learning_rate = {};  ///< from this step on; empty: unchanged
  std::optional<double> clip_norm = {};      ///< gradients are scaled down to at most this norm
};

/// What a step did; equal on all ranks. Value.
struct StepOutcome {
  /// Of the gradients times gradient_scale, before clipping. kMomentum: of the momentum that
  /// arrives, after the warm-up.
  double norm = 0;
  bool skipped = false;  ///< a gradient was infinite or NaN: nothing changed
  friend bool operator==(const StepOutcome&, const StepOutcome&) = default;
};

/// Where this rank spent time since the last Engine::take_times(), in seconds. Value.
struct EngineTimes {
  double waiting = 0;    ///< for gathers and reductions: communication that was not hidden
  double optimizer = 0;  ///< in step(), excluding `waiting`
  double coding = 0;     ///< compressing, on any thread of this rank, whatever else happened
};

/// One rank's engine. One thread at a time. Only the engine may use `world` meanwhile. Resource.
class Engine {
 public:
  /// Collective; `world` must outlive it. All ranks return alike: kPeerFailed names a rank with
  /// another model, other options, or too little memory. `patience`: how long a rank waits for the
  /// others before it asks them whether they do the same.
  static Result<std::unique_ptr<Engine>> create(
      Plan plan, const Optimizer& optimizer, Comm& world,
      std::chrono::milliseconds patience = std::chrono::seconds(3));
  ~Engine();

  [[nodiscard]] const Plan& plan() const;
  [[nodiscard]] const FlatLayout& layout() const;

  /// Gives all ranks rank 0's values. Collective. `values` is called on rank 0 only, and must write
  /// all elements of a parameter.
  Status fill(const std::function<void(ParameterId, std::span<float>)>& values);
  /// All elements of a parameter, from the float32 masters, on all ranks. Collective.
  Result<std::vector<float>> whole(ParameterId id);

  // ---- Parameters

  /// The unit's buffer, including padding, with elements of plan().options().compute.
  /// layout().offset_of() says where each parameter lies. Complete until release(). Gathers the
  /// next units ahead of time. kInvalidUsage: more units are in use at once than there are windows.
  Result<std::span<std::byte>> use(GroupId unit, Pass pass);
  Status release(GroupId unit, Pass pass);
  /// One parameter: of a unit in use, or any if parameters are whole. Otherwise empty.
  [[nodiscard]] std::span<std::byte> parameter(ParameterId id) const;
  /// Increases whenever parameters change: in fill(), step() and load(). For callers that keep
  /// copies.
  [[nodiscard]] std::uint64_t version() const;

  // ---- Gradients

  /// Begins a backward pass. `is_last`: the last of this step. `gradient_scale`: that of the step
  /// to come, needed where gradients are added to the momentum before that is sent (kMomentum);
  /// equal on all ranks.
  Status begin_backward(bool is_last, std::optional<double> gradient_scale = {});
  /// Where this rank's gradient of a parameter goes, with elements of plan().options().reduce, and
  /// whether to add it to the contents or overwrite them. Valid from begin_backward() to ready().
  Result<GradientPlace> gradient(ParameterId id);
  /// The parameter's gradient of this pass is complete. kInvalidUsage: twice in a pass, or outside
  /// a pass.
  Status ready(ParameterId id);
  /// The parameter has no gradient in this pass; it counts as zeros.
  Status ready_without(ParameterId id);
  /// Parameters that are not ready in the current pass. For ready_without(), if a model does not
  /// use all its parameters in each pass.
  [[nodiscard]] std::vector<ParameterId> missing() const;
  /// Waits for everything sent. kInvalidUsage names parameters that are not ready.
  Status end_backward();
  /// Ends training because this rank cannot go on for an outside reason. The others get kPeerFailed
  /// with its text. Returns what ended training: `why`, or an earlier error.
  Error give_up(Error why);
  /// Steps what this rank owns, with the sums over all ranks and passes. Call it after the last
  /// pass.
  Result<StepOutcome> step(const StepOptions& options);

  // ---- Checkpoints

  /// What this rank saves: the parts of "parameter" and of kMoments that it owns and no other rank
  /// saves, and what compression keeps for later steps. Valid until the next step().
  [[nodiscard]] std::vector<OwnedPiece> owned();
  /// Loads all of these from a checkpoint of any number of ranks under any plan, and sets the
  /// number of steps taken to `steps`. What ranks owe stays the same in sum, whatever their number;
  /// where other ranks encode an element than before, it is paid in the next step. Returns
  /// sentences for the user about what the checkpoint has and the plan has no use for, or the other
  /// way round. Collective.
  Result<std::vector<std::string>> load(const Checkpoint& checkpoint, std::int64_t steps);
  /// The norm of what this rank owes, in the unit of gradients or of momentum; 0 where it owes
  /// nothing.
  [[nodiscard]] double norm_owed() const;
  /// Number of steps taken, without skipped ones.
  [[nodiscard]] std::int64_t steps() const;

  // ---- What it costs

  [[nodiscard]] EngineTimes take_times();
  /// The most memory allocated at any time, in the plan's classes.
  [[nodiscard]] MemoryPlan memory() const;
  /// Payload that this rank sent since the last call, in the plan's classes; `padding` and `shared`
  /// are 0.
  /// `others` counts messages for the norm and for comparing calls.
  struct Traffic {
    TrafficPlan payload;
    std::uint64_t others = 0;
  };
  [[nodiscard]] Traffic take_traffic();

 private:
  struct Parts;
  explicit Engine(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace tutti::training
