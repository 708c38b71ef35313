// Trains a model that ranks share: keeps its parameters, gradients and optimizer state as the plan
// says, moves them, and takes the same step on all ranks.
//
// Who drives it (training/torch, or a program) runs the model, and says what it is about to do:
//
//   engine->fill(...)                              once: rank 0's values become everybody's
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
// Where parameters are whole (kDdp, kZero1, kZero2) use() and release() do nothing, and parameter()
// stays where it is. Gathers and reductions run beside the caller. Every rank makes the same calls
// in the same order: the ranks compare what they did at every step, in the message that carries the
// norm, and a rank that differs is named with the parameter at which it did.
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
  /// Multiplies the sums of gradients: 1 / tokens of all ranks and passes, where each gradient is a
  /// sum over tokens; with a loss that was scaled, that too. Above 0, the same on all ranks.
  double gradient_scale = 1;
  std::optional<double> learning_rate = {};  ///< from this step on; without: as it is
  std::optional<double> clip_norm = {};      ///< gradients are scaled down to this norm at most
};

/// What a step did: the same on all ranks. Value.
struct StepOutcome {
  double norm = 0;       ///< of the gradients times gradient_scale, before they were clipped
  bool skipped = false;  ///< a gradient was infinite or no number: nothing changed
  friend bool operator==(const StepOutcome&, const StepOutcome&) = default;
};

/// Where time went, of this rank, since the last call of Engine::take_times(). Seconds. Value.
struct EngineTimes {
  double waiting = 0;    ///< for gathers and reductions: communication that nothing hid
  double optimizer = 0;  ///< in step(), without the waiting
};

/// One rank's. One thread at a time; nobody else uses `world` meanwhile. Resource.
class Engine {
 public:
  /// Collective; `world` outlives it. All ranks return alike: kPeerFailed names a rank that has
  /// another model, other options, or that has no memory. `patience`: how long a rank waits for the
  /// others before it asks them whether they do the same.
  static Result<std::unique_ptr<Engine>> create(
      Plan plan, const Optimizer& optimizer, Comm& world,
      std::chrono::milliseconds patience = std::chrono::seconds(3));
  ~Engine();

  [[nodiscard]] const Plan& plan() const;
  [[nodiscard]] const FlatLayout& layout() const;

  /// Rank 0's values become everybody's. Collective. `values` is called on rank 0 alone, and writes
  /// all elements of a parameter.
  Status fill(const std::function<void(ParameterId, std::span<float>)>& values);
  /// All elements of a parameter as float32 masters have them, on all ranks. Collective.
  Result<std::vector<float>> whole(ParameterId id);

  // ---- Parameters

  /// The unit's buffer (layout().offset_of() says where each parameter lies), of elements of
  /// plan().options().compute, padding included; whole until release(). Gathers what comes next
  /// ahead of time. kInvalidUsage: more units are in use at once than there are windows.
  Result<std::span<std::byte>> use(GroupId unit, Pass pass);
  Status release(GroupId unit, Pass pass);
  /// One parameter: of a unit that is in use, or any where parameters are whole. Else empty.
  [[nodiscard]] std::span<std::byte> parameter(ParameterId id) const;
  /// Grows whenever parameters change, in fill(), step() and load(): for who keeps copies of them.
  [[nodiscard]] std::uint64_t version() const;

  // ---- Gradients

  /// A backward pass begins; `is_last`: of this step.
  Status begin_backward(bool is_last);
  /// Where this rank's gradient of a parameter goes, of elements of plan().options().reduce, and
  /// whether it is added to what is there, or else written. From begin_backward() to ready().
  Result<GradientPlace> gradient(ParameterId id);
  /// Its gradient of this pass is complete. kInvalidUsage: twice in a pass, or outside of one.
  Status ready(ParameterId id);
  /// A parameter that has no gradient in this pass: counts as zeros.
  Status ready_without(ParameterId id);
  /// Parameters that are not ready in the pass that is open: for ready_without(), where a model
  /// does not use all of its parameters in each pass.
  [[nodiscard]] std::vector<ParameterId> missing() const;
  /// Waits for what is sent. kInvalidUsage names parameters that are not ready.
  Status end_backward();
  /// This rank cannot go on for a reason outside of the engine: the others get kPeerFailed with its
  /// text. Returns what ended training: `why`, or an error before it.
  Error give_up(Error why);
  /// Steps what this rank owns, by the sums over all ranks and passes. After the last pass.
  Result<StepOutcome> step(const StepOptions& options);

  // ---- Checkpoints

  /// What this rank saves: parts of "parameter" and of kMoments that it owns and no other
  /// rank saves. Valid until the next step().
  [[nodiscard]] std::vector<OwnedPiece> owned();
  /// Takes all of these from a checkpoint of any number of ranks, under any plan, and `steps` as
  /// the number of steps that were taken. Collective.
  Status load(const Checkpoint& checkpoint, std::int64_t steps);
  /// Steps that were taken; skipped ones do not count.
  [[nodiscard]] std::int64_t steps() const;

  // ---- What it costs

  [[nodiscard]] EngineTimes take_times();
  /// Of what was allocated: the most at any time, in the classes of the plan.
  [[nodiscard]] MemoryPlan memory() const;
  /// Payload that this rank sent since the last call, in the classes of the plan; `padding` is 0.
  /// The norm's and the comparison's own messages are in `others`.
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
