// The moving average of a noisy series.
#pragma once

#include <cmath>

namespace tutti::trainer {

/// Exponential, without the pull to zero that its first values would have (the correction of Kingma
/// and Ba, Adam, ICLR 2015, section 3). Numbers that are none are left out. Value.
class Average {
 public:
  /// `decay`: how much of the average stays at a value.
  explicit Average(double decay = 0.95) : decay_(decay) {}
  void add(double value) {
    if (!std::isfinite(value)) return;
    sum_ = decay_ * sum_ + (1 - decay_) * value;
    weight_ = decay_ * weight_ + (1 - decay_);
  }
  /// Not a number before the first value.
  [[nodiscard]] double value() const { return sum_ / weight_; }

 private:
  double decay_, sum_ = 0, weight_ = 0;
};

}  // namespace tutti::trainer
