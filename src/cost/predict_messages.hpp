// Predicts how long a group of point-to-point messages takes one rank.
#pragma once

#include <cstddef>
#include <span>

#include "src/cost/calibration.hpp"

namespace tutti {

/// A send or a receive of one rank. Value.
struct MessageOfRank {
  bool sends = false;
  bool same_host = false;  ///< as its peer, or the peer is the rank itself
  std::size_t bytes = 0;
};

/// Microseconds until all messages are complete, if all run at once and the peers are ready. It is
/// the longest latency plus the largest of three times: the rank's own work, its sends to other
/// hosts, and its receives from them.
double predict(std::span<const MessageOfRank> messages, const Calibration& calibration);

}  // namespace tutti
