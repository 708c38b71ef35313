// Lower bounds on the time of collectives, which no schedule can beat, for two kinds of networks.
//
// There are three bounds. Each holds by itself, so the largest counts:
//   latency    A rank's knowledge spreads to k others at a time. So it takes ceil(log_{k+1} n)
//              rounds until one rank has heard of n ranks, or n ranks of one.
//   bandwidth  A certain number of bytes must cross a cut of the network, whatever the schedule.
//              For what a rank must send or receive in all-reduce, see Patarasuk and Yuan
//              ("Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009).
//   compute    Some rank must do n-1 additions for each element (Chan, Heimlich, Purkayastha, van
//              de Geijn, "Collective communication: theory, practice, and experience", 2007, has
//              all three bounds for one port).
//
// They hold if data travels in plain. Where switches add, a rank of an all-reduce need not send or
// receive more than the vector itself, and additions need not be the ranks'. Switches do not add in
// the k-port model (src/sim/simulate.hpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/ir/request.hpp"
#include "src/sim/fabric.hpp"

namespace tutti::sim {

/// In microseconds.
struct Bound {
  double latency = 0;
  double bandwidth = 0;
  double compute = 0;
  [[nodiscard]] double time() const { return std::max({latency, bandwidth, compute}); }
};

/// What the bounds consider besides the network, as in Costs.
struct BoundCosts {
  std::uint32_t ports = 0;  ///< ranks that a rank can send to, or receive from, at once; 0: all
  double reduce_ps_per_byte = 0;
};

/// `bytes`: the size of the call, see size_of_call(). The network has as many ranks as the request.
Bound uniform_bound(const ir::Request& request, double bytes, const UniformSwitch::Shape& network,
                    const BoundCosts& costs = {});

/// The same between nodes of several ranks, with cuts around a rank and around a node.
Bound two_level_bound(const ir::Request& request, double bytes,
                      const TwoLevelSwitch::Shape& network, const BoundCosts& costs = {});

}  // namespace tutti::sim
