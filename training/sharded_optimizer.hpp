// An optimizer for what one rank owns of flat parameters: all of them, or a shard of each group.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "training/adamw.hpp"
#include "training/flat_layout.hpp"
#include "training/frozen_adam.hpp"
#include "training/sgd.hpp"

namespace tutti::training {

using Optimizer = std::variant<AdamW, Sgd>;

/// Float32 values of state per element: 2, 1 or 0.
int moments_of(const Optimizer& optimizer);
/// Their names in checkpoints, in order.
inline constexpr std::array<std::string_view, 2> kMoments = {"first", "second"};

/// A value, but a large one: the moments of all owned elements.
class ShardedOptimizer {
 public:
  /// `shard`: this rank's, less than layout->shards().
  ShardedOptimizer(std::shared_ptr<const FlatLayout> layout, int shard, const Optimizer& optimizer);

  /// Sets the rate for the next step, for schedules.
  void set_learning_rate(double rate);

  /// Continues as if `steps` steps had been taken, after moments were read from a checkpoint.
  void resume(std::int64_t steps) { step_ = steps; }

  /// Begins the next step.
  void begin_step() { ++step_; }
  /// Steps a group's shard; `gradient_scale` multiplies each gradient. Both spans cover the shard
  /// with its padding, which does not change. Once per group and step.
  void step(GroupId group, std::span<const float> gradients, std::span<float> parameters,
            float gradient_scale);

  /// Steps by momentum with the options of this optimizer, which is AdamW: see frozen_adam.hpp.
  /// `how` is complete but for these. The spans are of a group; where there is one shard.
  void prepare_frozen(FrozenAdam how, GroupId group, std::span<float> gradients);
  void frozen_momentum(FrozenAdam how, GroupId group, std::span<float> sums);
  void frozen_step(FrozenAdam how, GroupId group, float shrinks, std::span<const float> momentum,
                   std::span<float> parameters);

  /// Number of steps begun.
  [[nodiscard]] std::int64_t steps() const { return step_; }
  [[nodiscard]] int moments() const { return moments_of(optimizer_); }
  /// Moment number `which` (less than moments()) of a group's shard, including padding.
  [[nodiscard]] std::span<float> moment(int which, GroupId group) {
    return moments_[group][static_cast<std::size_t>(which)];
  }

 private:
  std::shared_ptr<const FlatLayout> layout_;
  Optimizer optimizer_;
  std::int64_t step_ = 0;
  std::vector<std::array<std::vector<float>, kMoments.size()>> moments_;  ///< by group
  std::vector<std::vector<Piece>> pieces_;  ///< of the shard, by group
};

}  // namespace tutti::training
