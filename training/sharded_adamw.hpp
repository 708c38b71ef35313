// AdamW on what one rank owns of flat parameters: all of them, or a shard of each group.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "training/adamw.hpp"
#include "training/flat_layout.hpp"

namespace tutti::training {

/// Value, but for its size: two floats for each element that is owned.
class ShardedAdamW {
 public:
  /// `shard`: that this rank owns, below layout->shards().
  ShardedAdamW(std::shared_ptr<const FlatLayout> layout, int shard, const AdamW& options);

  /// Of the step that comes next, for schedules.
  void set_learning_rate(double rate) { options_.learning_rate = rate; }

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
  /// The moments of a group's shard, padding included.
  [[nodiscard]] std::span<float> first(GroupId group) { return moments_[group].first; }
  [[nodiscard]] std::span<float> second(GroupId group) { return moments_[group].second; }

 private:
  struct Moments {
    std::vector<float> first, second;
  };
  std::shared_ptr<const FlatLayout> layout_;
  AdamW options_;
  std::int64_t step_ = 0;
  std::vector<Moments> moments_;            ///< by group
  std::vector<std::vector<Piece>> pieces_;  ///< of the shard, by group
};

}  // namespace tutti::training
