#include "training/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tutti::training {

double LearningRate::at(std::uint64_t step, double progress, double warmup_progress) const {
  if (step <= warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  const double left = 1 - warmup_progress;
  const double done = left > 0 ? std::clamp((progress - warmup_progress) / left, 0.0, 1.0) : 1;
  return least + (peak - least) * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

}  // namespace tutti::training
