// What no schedule can beat: lower bounds on the time of collectives, for two kinds of networks.
//
// Three arguments, each by itself, so the greatest counts:
//   latency    What a rank knows spreads to k others at a time, so it takes ceil(log_{k+1} n)
//   rounds
//              until one rank has heard of n, or n of one.
//   bandwidth  So many bytes must cross a cut of the network, whatever the schedule. What a rank
//              must send or receive in all-reduce is due to Patarasuk and Yuan ("Bandwidth optimal
//              all-reduce algorithms for clusters of workstations", 2009).
//   compute    n-1 additions of each element must be done by someone (Chan, Heimlich, Purkayastha,
//              van de Geijn, "Collective communication: theory, practice, and experience", 2007,
//              has all three for one port).
//
// They hold where data travels as it is (no codec) and is added by ranks alone, not by switches.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/ir/request.hpp"
#include "src/sim/fabric.hpp"

namespace tutti::sim {

/// Microseconds.
struct Bound {
  double latency = 0;
  double bandwidth = 0;
  double compute = 0;
  [[nodiscard]] double time() const { return std::max({latency, bandwidth, compute}); }
};

/// What the bounds take into account beyond the network, as in Costs.
struct BoundCosts {
  std::uint32_t ports = 0;  ///< others that a rank can send to, or receive from, at a time; 0: all
  double reduce_ps_per_byte = 0;
};

/// `bytes`: the size of the call, as in size_of_call(). The ranks of the network are the request's.
Bound uniform_bound(const ir::Request& request, double bytes, const UniformSwitch::Shape& network,
                    const BoundCosts& costs = {});

/// The same between nodes of several ranks: cuts around a rank and around a node.
Bound two_level_bound(const ir::Request& request, double bytes,
                      const TwoLevelSwitch::Shape& network, const BoundCosts& costs = {});

}  // namespace tutti::sim
