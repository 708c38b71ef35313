// Measures time from lap to lap.
#pragma once

#include <chrono>

namespace tutti::trainer {

/// Value.
class Stopwatch {
 public:
  /// Seconds since it was made, or since the lap before.
  double lap() {
    const double before = last_;
    last_ = now();
    return last_ - before;
  }
  /// Seconds since some moment, the same in all of a process.
  static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

 private:
  double last_ = now();
};

}  // namespace tutti::trainer
