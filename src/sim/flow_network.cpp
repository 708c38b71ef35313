#include "src/sim/flow_network.hpp"

#include <utility>

namespace tutti::sim {

FlowNetwork::FlowNetwork(std::vector<double> capacities)
    : shares_(capacities), loads_(capacities.size()), busy_since_(capacities.size(), 0) {}

void FlowNetwork::start(std::span<const LinkId> path, std::uint64_t bytes, std::uint32_t name,
                        Time now) {
  const FlowId id = place_on(path, now);
  if (id >= flows_.size()) flows_.resize(id + std::size_t{1});
  flows_[id] = {.name = name, .bytes = bytes, .left = static_cast<double>(bytes), .since = now};
  if (shares_.rate(id) > 0) take_share(id, now);
}

FlowId FlowNetwork::place_on(std::span<const LinkId> path, Time now) {
  if (const auto place = vacant_.find(path.data()); place != vacant_.end()) {
    const FlowId id = place->second;
    vacant_.erase(place);
    return id;
  }
  for (const LinkId link : path)
    if (shares_.flows_on(link) == 0) busy_since_[link] = now;
  return shares_.add(path);
}

void FlowNetwork::settle(Time now) {
  give_places_up(now);
  for (const FlowId id : shares_.update()) take_share(id, now);
}

void FlowNetwork::give_places_up(Time now) {
  for (const FlowId id : ended_) {
    if (flows_[id].bytes != 0) continue;  // taken
    const std::span<const LinkId> path = shares_.path(id);
    shares_.remove(id);
    for (const LinkId link : path)
      if (shares_.flows_on(link) == 0) loads_[link].busy += now - busy_since_[link];
  }
  ended_.clear();
  vacant_.clear();
}

void FlowNetwork::take_share(FlowId id, Time now) {
  Flow& flow = flows_[id];
  flow.left -= flow.rate * static_cast<double>(now - flow.since);
  flow.since = now;
  flow.rate = shares_.rate(id);
  flow.end = now + (flow.left > 0 ? from_picoseconds(flow.left / flow.rate) : 0);
  // One that ends later than it stands in the agenda is moved when its turn comes.
  if (flow.entered <= flow.end) return;
  flow.entered = flow.end;
  ends_.enter(flow.end, id);
}

Time FlowNetwork::next_end() {
  for (; !ends_.empty(); ends_.take()) {
    const FlowId id = ends_.first();
    Flow& flow = flows_[id];
    if (flow.entered != ends_.next()) continue;
    if (flow.end == flow.entered) return flow.end;
    flow.entered = flow.end;
    ends_.enter(flow.end, id);
  }
  return kNever;
}

void FlowNetwork::end_flows(Time now, std::vector<std::uint32_t>& names) {
  while (next_end() == now) {
    const FlowId id = ends_.take();
    Flow& flow = flows_[id];
    names.push_back(flow.name);
    const std::span<const LinkId> path = shares_.path(id);
    for (const LinkId link : path) loads_[link].bytes += flow.bytes;
    flow = {};
    ended_.push_back(id);
    vacant_.try_emplace(path.data(), id);  // of several on one path, one is followed
  }
}

}  // namespace tutti::sim
