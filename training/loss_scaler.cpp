#include "training/loss_scaler.hpp"

#include <algorithm>

namespace tutti::training {

void LossScaler::update(bool skipped) {
  if (growth_interval == 0) return;
  if (skipped) {
    scale = std::max(scale / 2, kLeast);
    good_steps = 0;
  } else if (++good_steps >= growth_interval) {
    scale = std::min(scale * 2, kMost);
    good_steps = 0;
  }
}

}  // namespace tutti::training
