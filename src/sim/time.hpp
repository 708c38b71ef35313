// Virtual time: whole picoseconds, so that what happens at once in the model does so in the
// program, and the order of events never hangs on the last bit of a floating point number.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace tutti::sim {

/// Picoseconds since the start of the simulated call. Nine million seconds fit.
using Time = std::int64_t;
inline constexpr Time kNever = std::numeric_limits<Time>::max();
/// What the sum of all costs of a simulation may come to; times beyond it are refused.
inline constexpr double kLongestPicoseconds = 4e18;

inline constexpr double kPicosecondsPerMicrosecond = 1e6;
/// 1 GB/s (1e9 bytes per second) is a thousandth of a byte per picosecond.
inline constexpr double kBytesPerPicosecondAtOneGigabyte = 1e-3;

/// Rounded up, so that no simulated time lies below the exact one; what exceeds a whole number by
/// less than a thousandth is rounding of the arithmetic before and does not count.
inline Time from_picoseconds(double picoseconds) {
  return static_cast<Time>(std::ceil(picoseconds - 1e-3));
}
inline Time from_microseconds(double us) {
  return from_picoseconds(us * kPicosecondsPerMicrosecond);
}
inline double to_microseconds(Time time) {
  return static_cast<double>(time) / kPicosecondsPerMicrosecond;
}

}  // namespace tutti::sim
