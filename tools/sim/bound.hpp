// A lower bound on the time of any schedule on a machine, and its cause.
//
// On the two switches: src/sim/bounds.hpp. On a topology the greatest of
//
//   cuts       What must leave or enter a rank, or a host, whatever the schedule, over the
//              bandwidth of the links that do. An all-reduce needs 2(k-1) messages of the whole
//              vector between k groups: k-1 until one of them knows the sum, k-1 until all do
//              (Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
//              workstations", 2009, for equal groups). Where switches between the groups add, only
//              the whole vector must leave and enter each.
//   forest     The worst of all cuts, by ForestColl's method (src/topo/forest/optimum.hpp), for
//              all_gather, reduce_scatter, broadcast and reduce, where the network that it works
//              on stands for the topology exactly.
//   latency    of the longest path that data must take, at the speed of its links.
//   additions  n-1 of each element, shared by all ranks, unless switches add.
//
// All hold if data travels in plain. In the k-port model no switch adds.
#pragma once

#include <string>

#include "src/ir/request.hpp"
#include "src/sim/bounds.hpp"
#include "tools/sim/machine.hpp"
#include "tutti/error.hpp"

namespace tutti::simtool {

struct LowerBound {
  double us = 0;
  std::string reason;  ///< "links out of rank 3"; refers to the greatest bound
};

/// Of one request on one machine, for all sizes. The machine must outlive it. Value.
class Bounds {
 public:
  Bounds(const Machine& machine, const ir::Request& request, const sim::BoundCosts& costs);

  /// `bytes`: the size of the call, as in sim::size_of_call().
  [[nodiscard]] LowerBound at(double bytes) const;

 private:
  const Machine* machine_;
  ir::Request request_;
  sim::BoundCosts costs_;
  double latency_us_ = 0;   // of a topology
  double us_per_byte_ = 0;  // of a topology: of its worst cut
  std::string worst_cut_;
};

}  // namespace tutti::simtool
