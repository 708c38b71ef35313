// The learning rate of each step: a linear warm-up, then a cosine down to a least one (Loshchilov
// and Hutter, SGDR, ICLR 2017, equation 5, without restarts).
#pragma once

#include <cstdint>

namespace tutti::training {

/// Value.
struct LearningRate {
  double peak = 1e-3;
  double least = 1e-4;       ///< at the end
  std::uint64_t warmup = 0;  ///< steps until the peak
  friend bool operator==(const LearningRate&, const LearningRate&) = default;

  /// Of step `step`, 1 for the first. `progress`: how much of the run is done, 0..1. Within the
  /// warm-up only the step counts, after it only the progress, of which `warmup_progress` was done
  /// when it ended.
  [[nodiscard]] double at(std::uint64_t step, double progress, double warmup_progress = 0) const;
};

}  // namespace tutti::training
