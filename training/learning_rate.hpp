// The learning rate of each step: a linear warm-up, then a cosine down to a minimum (Loshchilov and
// Hutter, SGDR, ICLR 2017, equation 5, without restarts).
#pragma once

#include <cstdint>

namespace tutti::training {

/// Value.
struct LearningRate {
  double peak = 1e-3;
  double least = 1e-4;       ///< at the end
  std::uint64_t warmup = 0;  ///< steps until the peak
  friend bool operator==(const LearningRate&, const LearningRate&) = default;

  /// The rate for step `step`, starting from 1. `progress`: how much of the run is done, 0..1.
  /// During the warm-up only the step counts. Afterwards only the progress counts; it was
  /// `warmup_progress` when the warm-up ended.
  [[nodiscard]] double at(std::uint64_t step, double progress, double warmup_progress = 0) const;
};

}  // namespace tutti::training
