// Flows on their way over a network of links, in virtual time.
//
// A flow has so many bytes to carry over a path of links; all links of the path carry it at one
// rate, which is its max-min fair share (src/sim/fair_shares.hpp) and changes as other flows start
// and end. Latency is no matter of this file: a flow ends when its last byte has left.
//
// Where messages stream, most flows that end are followed at once by one on the same path. It takes
// the place of the first, with its rate: max-min fair shares hang on paths alone, so nobody's
// changes, and none need be computed.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "src/sim/agenda.hpp"
#include "src/sim/fair_shares.hpp"
#include "src/sim/time.hpp"

namespace tutti::sim {

/// What a link has done since the start.
struct LinkLoad {
  std::uint64_t bytes = 0;  ///< of flows that have ended
  Time busy = 0;            ///< time during which it carried at least one flow
};

/// Not safe for use by several threads at once. Time never goes back from call to call.
class FlowNetwork {
 public:
  /// `capacities`: bytes per picosecond, each greater than 0.
  explicit FlowNetwork(std::vector<double> capacities);

  /// Starts a flow that answers to `name` when it ends. `bytes` > 0; the path as in
  /// FairShares::add, but that it must stay where it is until the settle() after the flow's end: a
  /// path is known by its address. The flow begins with the next settle().
  void start(std::span<const LinkId> path, std::uint64_t bytes, std::uint32_t name, Time now);

  /// Gives every flow its rate. Call once all that starts and ends at `now` has done so.
  void settle(Time now);

  /// When the next flow ends if nothing else happens; kNever when none is on its way. The network
  /// must be settled.
  Time next_end();

  /// Ends the flows whose time `now` is and appends their names, in a fixed order. Call settle()
  /// before the next call.
  void end_flows(Time now, std::vector<std::uint32_t>& names);

  [[nodiscard]] std::span<const LinkLoad> loads() const { return loads_; }

 private:
  struct Flow {
    std::uint32_t name = 0;
    std::uint64_t bytes = 0;
    double left = 0;        // bytes, as of `since`
    double rate = 0;        // bytes per picosecond
    Time since = 0;         // when it got this rate
    Time end = kNever;      // at this rate
    Time entered = kNever;  // where it stands in the agenda: at its end or before; else it is stale
  };

  /// The place that a flow on this path left at the present time, or a new one.
  FlowId place_on(std::span<const LinkId> path, Time now);
  void give_places_up(Time now);
  /// The share that the flow has from now on.
  void take_share(FlowId id, Time now);

  FairShares shares_;
  std::vector<Flow> flows_;  // by FlowId
  std::vector<LinkLoad> loads_;
  std::vector<Time> busy_since_;
  std::vector<FlowId> ended_;                         // since the last settle(), in their order
  std::unordered_map<const LinkId*, FlowId> vacant_;  // of these, by path
  Agenda<FlowId> ends_;
};

}  // namespace tutti::sim
