// What a group of point-to-point messages will take a rank.
#pragma once

#include <cstddef>
#include <span>

#include "src/cost/calibration.hpp"

namespace tutti {

/// A send or a receive of one rank. Value.
struct MessageOfRank {
  bool sends = false;
  bool same_host = false;  ///< as its peer, or the rank itself
  std::size_t bytes = 0;
};

/// Microseconds until all of them are over, given that all are under way at once and the peers are
/// ready: the longest of the rank's own work, of what it sends to other hosts and of what it
/// receives from them, and the longest latency.
double predict(std::span<const MessageOfRank> messages, const Calibration& calibration);

}  // namespace tutti
