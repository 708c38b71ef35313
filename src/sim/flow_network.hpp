// Flows on a network of links, in virtual time.
//
// A flow carries bytes over a path of links. All links of the path carry it at one rate: its
// max-min fair share (src/sim/fair_shares.hpp), which changes as other flows start and end. This
// file ignores latency: a flow ends when its last byte has left.
//
// When messages stream, most flows that end are followed at once by another on the same path. That
// flow takes over the first one's place and rate. Max-min fair shares depend on paths only, so no
// rate changes and none is recomputed.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "src/sim/agenda.hpp"
#include "src/sim/fair_shares.hpp"
#include "src/sim/time.hpp"

namespace tutti::sim {

/// What a link has carried since the start.
struct LinkLoad {
  std::uint64_t bytes = 0;  ///< of flows that have ended
  Time busy = 0;            ///< time during which it carried at least one flow
};

/// One thread at a time. Time never decreases between calls.
class FlowNetwork {
 public:
  /// `capacities` in bytes per picosecond, each greater than 0.
  explicit FlowNetwork(std::vector<double> capacities);

  /// Starts a flow; end_flows() reports `name` when it ends. `bytes` > 0. The path is as in
  /// FairShares::add, but must stay in memory until the settle() after the flow's end, because its
  /// address identifies it. The flow begins with the next settle().
  void start(std::span<const LinkId> path, std::uint64_t bytes, std::uint32_t name, Time now);

  /// Assigns every flow its rate. Call it once everything that starts or ends at `now` has done so.
  void settle(Time now);

  /// When the next flow ends if nothing else happens; kNever if there is no flow. Call settle()
  /// first.
  Time next_end();

  /// Ends the flows that end at `now` and appends their names, in a fixed order. Call settle()
  /// before the next call.
  void end_flows(Time now, std::vector<std::uint32_t>& names);

  [[nodiscard]] std::span<const LinkLoad> loads() const { return loads_; }

 private:
  struct Flow {
    std::uint32_t name = 0;
    std::uint64_t bytes = 0;
    double left = 0;    // bytes not carried yet, as of `since`
    double rate = 0;    // bytes per picosecond
    Time since = 0;     // when it got this rate
    Time end = kNever;  // when it ends at this rate
    Time entered =
        kNever;  // time of its agenda entry: at its end or before; other entries are stale
  };

  /// The place that a flow on this path left at the current time, or a new place.
  FlowId place_on(std::span<const LinkId> path, Time now);
  void give_places_up(Time now);
  /// Applies the flow's new share.
  void take_share(FlowId id, Time now);

  FairShares shares_;
  std::vector<Flow> flows_;  // by FlowId
  std::vector<LinkLoad> loads_;
  std::vector<Time> busy_since_;
  std::vector<FlowId> ended_;                         // since the last settle(), in order
  std::unordered_map<const LinkId*, FlowId> vacant_;  // places of ended flows, by path
  Agenda<FlowId> ends_;
};

}  // namespace tutti::sim
