#include "src/sim/traffic.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "src/base/result.hpp"
#include "src/sim/rounds.hpp"

namespace tutti::sim {
namespace {

/// A message of a channel before all are put in their order.
struct Turn {
  std::uint32_t turn;
  std::uint32_t index;  // the k-th send of the channel
  std::uint32_t slice;
  friend bool operator<(const Turn& a, const Turn& b) {
    return std::tie(a.turn, a.index, a.slice) < std::tie(b.turn, b.index, b.slice);
  }
};

/// Of the messages of each channel, when those of the steps are known.
Traffic::Rounds rounds_of(const ir::Matching& matching, const Traffic::Rounds& of_steps) {
  Traffic::Rounds result;
  for (const ir::Channel& channel : matching.channels) {
    auto& rounds = result.emplace_back();
    for (const ir::StepId send : channel.sends)
      rounds.push_back(of_steps[static_cast<std::size_t>(channel.source)][send]);
  }
  return result;
}

}  // namespace

Result<Traffic> Traffic::plan(const ir::Schedule& schedule, Fabric& fabric, const TaskGraph& graph,
                              const Rounds& rounds) {
  TUTTI_ASSIGN(const ir::Matching matching, ir::match(schedule));
  Traffic traffic;
  TUTTI_TRY(traffic.join(matching, fabric));
  if (!rounds.empty()) {
    traffic.line_up(matching, rounds_of(matching, rounds), graph);
    return traffic;
  }
  TUTTI_ASSIGN(const ir::GroupOperations operations,
               ir::group_operations(schedule, ir::Membership(schedule)));
  traffic.line_up(matching, count_rounds(schedule, matching, operations).messages, graph);
  return traffic;
}

/// Makes pairs and channels.
Status Traffic::join(const ir::Matching& matching, Fabric& fabric) {
  std::unordered_map<std::uint64_t, PairId> known;
  for (const ir::Channel& channel : matching.channels) {
    const std::uint64_t key = (static_cast<std::uint64_t>(channel.source) << 32U) |
                              static_cast<std::uint32_t>(channel.destination);
    const auto [at, is_new] = known.try_emplace(key, static_cast<PairId>(pairs_.size()));
    if (is_new)
      pairs_.push_back(
          {channel.source, channel.destination, fabric.costs(channel.source, channel.destination)});
    TUTTI_ASSIGN(std::vector<LinkId> path,
                 fabric.path(channel.source, channel.destination, channel.lane));
    double latency = pairs_[at->second].costs.latency_us;
    for (const LinkId link : path) latency += fabric.links()[link].latency;
    channels_.push_back(
        {.pair = at->second, .path = std::move(path), .latency = from_microseconds(latency)});
  }
  return ok_status();
}

/// Puts the messages of each channel in their order.
void Traffic::line_up(const ir::Matching& matching, const Rounds& rounds, const TaskGraph& graph) {
  const std::uint32_t slices = graph.slices();
  first_of_.resize(graph.tasks() / slices);
  std::vector<Turn> turns;
  for (ChannelId id = 0; id < channels_.size(); ++id) {
    const ir::Channel& steps = matching.channels[id];
    turns.clear();
    const auto first = static_cast<MessageId>(messages_.size());
    for (std::uint32_t k = 0; k < steps.sends.size(); ++k) {
      const std::uint32_t at = first + k * slices;
      first_of_[graph.number(steps.source, steps.sends[k])] = at;
      first_of_[graph.number(steps.destination, steps.receives[k])] = at;
      for (std::uint32_t slice = 0; slice < slices; ++slice)
        turns.push_back({rounds[id][k] + slice, k, slice});
    }
    std::sort(turns.begin(), turns.end());
    order_.resize(first + turns.size());
    for (const auto& [turn, k, slice] : turns) {
      order_[first + k * slices + slice] = static_cast<MessageId>(messages_.size());
      messages_.push_back({id, steps.sends[k], steps.receives[k], slice, turn});
    }
    channels_[id].first = first;
    channels_[id].end = static_cast<MessageId>(messages_.size());
  }
}

}  // namespace tutti::sim
