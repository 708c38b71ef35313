// Virtual time in whole picoseconds. So what happens at once in the model does so in the program,
// and the order of events never depends on the last bit of a floating-point number.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tutti::sim {

/// Picoseconds since the start of the simulated call.
using Time = std::int64_t;
inline constexpr Time kNever = std::numeric_limits<Time>::max();
/// 11 days. A simulation ends there, so times never overflow.
inline constexpr Time kLongest = 1'000'000'000'000'000'000;

inline constexpr double kPicosecondsPerMicrosecond = 1e6;
/// 1 GB/s (1e9 bytes per second) is a thousandth of a byte per picosecond.
inline constexpr double kBytesPerPicosecondAtOneGigabyte = 1e-3;

/// Rounds up, so no simulated time is less than the exact one. An excess of less than a thousandth
/// over a whole number is a rounding error and is ignored. At most kLongest.
inline Time from_picoseconds(double picoseconds) {
  return static_cast<Time>(std::ceil(std::min(picoseconds - 1e-3, double{kLongest})));
}
inline Time from_microseconds(double us) {
  return from_picoseconds(us * kPicosecondsPerMicrosecond);
}
inline double to_microseconds(Time time) {
  return static_cast<double>(time) / kPicosecondsPerMicrosecond;
}

}  // namespace tutti::sim
