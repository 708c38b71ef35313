// What a simulation has found out when it ends.
#pragma once

#include <cstdint>
#include <span>

#include "src/sim/flow_network.hpp"
#include "src/sim/group_runs.hpp"
#include "src/sim/job.hpp"
#include "src/sim/simulate.hpp"
#include "src/sim/time.hpp"

namespace tutti::sim {

/// The state of a simulation at its end.
struct End {
  Time now = 0;
  std::uint64_t tasks = 0;
  const FlowNetwork& network;
  const GroupRuns& groups;
  std::span<const std::uint64_t> bytes_sent;  ///< by rank
};

/// All but the bandwidths.
Outcome outcome_of(const Job& job, const End& end);

}  // namespace tutti::sim
