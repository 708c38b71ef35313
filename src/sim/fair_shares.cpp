#include "src/sim/fair_shares.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace tutti::sim {

FairShares::FairShares(std::vector<double> capacities) : links_(capacities.size()) {
  for (std::size_t link = 0; link < links_.size(); ++link) links_[link].capacity = capacities[link];
}

FlowId FairShares::add(std::span<const LinkId> path) {
  if (free_.empty()) {
    free_.push_back(static_cast<FlowId>(flows_.size()));
    flows_.emplace_back();
  }
  const FlowId id = free_.back();
  free_.pop_back();
  Flow& flow = flows_[id];
  flow.path = path;
  flow.rate = 0;
  flow.places.resize(path.size());
  for (std::uint32_t hop = 0; hop < path.size(); ++hop) {
    Link& link = links_[path[hop]];
    flow.places[hop] = static_cast<std::uint32_t>(link.flows.size());
    link.flows.push_back({id, hop});
    mark_changed(path[hop]);
  }
  return id;
}

void FairShares::remove(FlowId id) {
  const Flow& flow = flows_[id];
  for (std::size_t hop = 0; hop < flow.path.size(); ++hop) {
    std::vector<Seat>& seats = links_[flow.path[hop]].flows;
    const Seat last = seats.back();
    seats[flow.places[hop]] = last;
    flows_[last.flow].places[last.hop] = flow.places[hop];
    seats.pop_back();
    mark_changed(flow.path[hop]);
  }
  free_.push_back(id);
}

void FairShares::mark_changed(LinkId link) {
  if (std::exchange(links_[link].changed, true)) return;
  changed_links_.push_back(link);
}

std::span<const FlowId> FairShares::update() {
  changed_flows_.clear();
  ++visit_;
  for (const LinkId link : changed_links_) {
    links_[link].changed = false;
    if (links_[link].visit == visit_) continue;
    explore(link);
    fill();
    for (const FlowId flow : members_)
      if (flows_[flow].rate != flows_[flow].old_rate) changed_flows_.push_back(flow);
  }
  changed_links_.clear();
  return changed_flows_;
}

void FairShares::see(LinkId link) {
  if (links_[link].visit == visit_) return;
  links_[link].visit = visit_;
  component_.push_back(link);
}

void FairShares::explore(LinkId start) {
  component_.clear();
  members_.clear();
  see(start);
  for (std::size_t next = 0; next < component_.size(); ++next) {
    Link& link = links_[component_[next]];
    link.left = link.capacity;
    link.open = static_cast<std::uint32_t>(link.flows.size());
    for (const Seat seat : link.flows) {
      Flow& flow = flows_[seat.flow];
      if (flow.visit == visit_) continue;
      flow.visit = visit_;
      flow.open = true;
      flow.old_rate = flow.rate;
      members_.push_back(seat.flow);
      for (const LinkId hop : flow.path) see(hop);
    }
  }
}

void FairShares::fill() {
  // Links that are full at the same rate are filled in one pass: their shares are equal but for
  // rounding, for which this leaves room.
  constexpr double kEqual = 1 + 1e-12;
  const auto is_done = [&](LinkId link) { return links_[link].open == 0; };
  for (;;) {
    std::erase_if(component_, is_done);
    if (component_.empty()) return;
    double share = std::numeric_limits<double>::infinity();
    for (const LinkId link : component_)
      share = std::min(share, links_[link].left / links_[link].open);
    full_.clear();
    for (const LinkId link : component_)
      if (links_[link].left <= share * kEqual * links_[link].open) full_.push_back(link);
    for (const LinkId link : full_)
      for (const Seat seat : links_[link].flows)
        if (flows_[seat.flow].open) close(seat.flow, share);
  }
}

void FairShares::close(FlowId id, double rate) {
  Flow& flow = flows_[id];
  flow.open = false;
  flow.rate = rate;
  for (const LinkId hop : flow.path) {
    links_[hop].left = std::max(0.0, links_[hop].left - rate);
    --links_[hop].open;
  }
}

}  // namespace tutti::sim
