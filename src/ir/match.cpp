#include "src/ir/match.hpp"

#include <algorithm>
#include <unordered_map>

#include "src/base/result.hpp"
#include "src/ir/cells.hpp"
#include "src/ir/verify.hpp"

namespace tutti::ir {
namespace {

std::uint64_t channel_key(Rank source, Rank destination, Lane lane) {
  return (static_cast<std::uint64_t>(source) << 40) |
         (static_cast<std::uint64_t>(destination) << 16) | lane;
}

Matching collect(const Schedule& schedule) {
  Matching matching;
  std::unordered_map<std::uint64_t, ChannelId> ids;
  for (Rank rank = 0; rank < schedule.request.ranks; ++rank) {
    const auto& steps = schedule.programs[static_cast<std::size_t>(rank)].steps;
    auto& channel_of = matching.channel_of.emplace_back(steps.size(), kNoChannel);
    for (StepId id = 0; id < steps.size(); ++id) {
      const Step& step = steps[id];
      if (!uses_peer(step.verb)) continue;
      const bool sends = step.verb == Verb::kSend;
      const Rank source = sends ? rank : step.peer;
      const Rank destination = sends ? step.peer : rank;
      const auto [entry, is_new] = ids.try_emplace(channel_key(source, destination, step.lane),
                                                   static_cast<ChannelId>(ids.size()));
      if (is_new) matching.channels.push_back({source, destination, step.lane, {}, {}});
      Channel& channel = matching.channels[entry->second];
      (sends ? channel.sends : channel.receives).push_back(id);
      channel_of[id] = entry->second;
    }
  }
  return matching;
}

Error unmatched(const Schedule& schedule, const Channel& channel) {
  const std::size_t pairs = std::min(channel.sends.size(), channel.receives.size());
  const bool send_is_left = channel.sends.size() > pairs;
  return make_error(
      Code::kInvalidArgument,
      "{}: this is {} {} from rank {} to rank {} on lane {}, but rank {} {} only {} there",
      send_is_left ? describe(schedule, channel.source, channel.sends[pairs])
                   : describe(schedule, channel.destination, channel.receives[pairs]),
      send_is_left ? "send" : "receive", pairs + 1, channel.source, channel.destination,
      channel.lane, send_is_left ? channel.destination : channel.source,
      send_is_left ? "receives" : "sends", pairs);
}

Status check_pair(const Schedule& schedule, const Channel& channel, std::size_t k) {
  const auto operand = [&](Rank rank, StepId id) {
    const Step& step = schedule.programs[static_cast<std::size_t>(rank)].steps[id];
    return step.verb == Verb::kSend ? step.src : step.dst;
  };
  const ChunkSet sent = operand(channel.source, channel.sends[k]);
  const ChunkSet received = operand(channel.destination, channel.receives[k]);
  if (sent.count != received.count) {
    return make_error(Code::kInvalidArgument, "{}: expected {} chunks, found {} in {}",
                      describe(schedule, channel.destination, channel.receives[k]), received.count,
                      sent.count, describe(schedule, channel.source, channel.sends[k]));
  }
  for (std::uint32_t i = 0; i < sent.count; ++i) {
    const std::uint32_t from = index_in_block(schedule, channel.source, sent.space, sent.at(i));
    const std::uint32_t to =
        index_in_block(schedule, channel.destination, received.space, received.at(i));
    if (from != to) {
      return make_error(
          Code::kInvalidArgument,
          "{}: chunk {} of the message has the size of chunk {} of a block, where that of chunk {} "
          "was expected; it comes from {}",
          describe(schedule, channel.destination, channel.receives[k]), i, from, to,
          describe(schedule, channel.source, channel.sends[k]));
    }
  }
  return ok_status();
}

}  // namespace

Result<Matching> match(const Schedule& schedule) {
  Matching matching = collect(schedule);
  for (const Channel& channel : matching.channels)
    if (channel.sends.size() != channel.receives.size()) return unmatched(schedule, channel);
  for (const Channel& channel : matching.channels)
    for (std::size_t k = 0; k < channel.sends.size(); ++k)
      TUTTI_TRY(check_pair(schedule, channel, k));
  return matching;
}

}  // namespace tutti::ir
