// The moving average of a noisy series.
#pragma once

#include <cmath>

namespace tutti::trainer {

/// Exponential, without the pull to zero that its first values would have (the correction of Kingma
/// and Ba, Adam, ICLR 2015, section 3). Value: what it has to remember is its members.
struct Average {
  double decay = 0.95;  ///< how much of the average stays at a value
  double sum = 0, weight = 0;
  friend bool operator==(const Average&, const Average&) = default;

  /// Numbers that are none are left out.
  void add(double one) {
    if (!std::isfinite(one)) return;
    sum = decay * sum + (1 - decay) * one;
    weight = decay * weight + (1 - decay);
  }
  /// Not a number before the first value.
  [[nodiscard]] double value() const { return sum / weight; }
};

}  // namespace tutti::trainer
