// An optimizer on what one rank owns of flat parameters: all of them, or a shard of each group.
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
#include "training/sgd.hpp"

namespace tutti::training {

using Optimizer = std::variant<AdamW, Sgd>;

/// Float32 numbers of state that it keeps for each element: 2, 1 or 0.
int moments_of(const Optimizer& optimizer);
/// As checkpoints call them, in order.
inline constexpr std::array<std::string_view, 2> kMoments = {"first", "second"};

/// Value, but for its size: the moments of each element that is owned.
class ShardedOptimizer {
 public:
  /// `shard`: that this rank owns, below layout->shards().
  ShardedOptimizer(std::shared_ptr<const FlatLayout> layout, int shard, const Optimizer& optimizer);

  /// Of the step that comes next, for schedules.
  void set_learning_rate(double rate);

  /// As if so many steps had been taken: once moments were read from a checkpoint.
  void resume(std::int64_t steps) { step_ = steps; }

  /// A step begins: the next one counts.
  void begin_step() { ++step_; }
  /// Steps a group's shard; `gradient_scale` multiplies each gradient. Both spans are of the shard,
  /// padding included, which stays as it is. Each group once a step.
  void step(GroupId group, std::span<const float> gradients, std::span<float> parameters,
            float gradient_scale);

  /// Steps that were begun.
  [[nodiscard]] std::int64_t steps() const { return step_; }
  [[nodiscard]] int moments() const { return moments_of(optimizer_); }
  /// A moment, below moments(), of a group's shard, padding included.
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
