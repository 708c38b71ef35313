// The inputs of a simulation.
#pragma once

#include <vector>

#include "src/ir/schedule.hpp"
#include "src/sim/fabric.hpp"
#include "src/sim/group_traffic.hpp"
#include "src/sim/simulate.hpp"
#include "src/sim/traffic.hpp"
#include "src/sim/volumes.hpp"

namespace tutti::sim {

/// They must outlive the simulation.
struct Job {
  const ir::Schedule& schedule;
  const Volumes& volumes;
  const Fabric& fabric;
  const Traffic& traffic;
  const GroupTraffic& groups;
  const Costs& costs;  ///< checked
  const SimulateOptions& options;
};

/// Bytes per picosecond of the fabric's links, slow ones as slow as they are, and then of the
/// groups' limits (GroupTraffic::limit_of).
std::vector<double> capacities(const Job& job);

}  // namespace tutti::sim
