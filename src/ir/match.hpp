// Pairs sends with receives: the k-th send on (source, destination, lane) with the k-th receive.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::ir {

/// One direction of one lane between two ranks. sends[k] pairs with receives[k].
struct Channel {
  Rank source = kNoRank;
  Rank destination = kNoRank;
  Lane lane = 0;
  std::vector<StepId> sends;
  std::vector<StepId> receives;
};

using ChannelId = std::uint32_t;
inline constexpr ChannelId kNoChannel = std::numeric_limits<ChannelId>::max();

struct Matching {
  std::vector<Channel> channels;
  /// channel_of[rank][step]; kNoChannel for steps that are neither send nor receive.
  std::vector<std::vector<ChannelId>> channel_of;
};

/// Fails on a send or receive without a partner, or when the two ends move chunks of different
/// sizes. The schedule must be well-formed.
Result<Matching> match(const Schedule& schedule);

}  // namespace tutti::ir
