// Whole jobs on switches in simulated time: workers, one switch or a tree of two levels, and a
// hostile network. The code of src/switch runs as it is; the rest is the caller that it needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/switch/worker.hpp"
#include "tests/switch/hostile_network.hpp"
#include "tests/switch/simulated_job.hpp"

namespace tutti::in_network {

struct SimulationPlan {
  std::uint64_t seed = 0;
  NetworkFaults faults;
  std::vector<JobPlan> jobs;
  unsigned restarts = 0;    ///< of switches, at random times
  unsigned stragglers = 0;  ///< of 1000 turns of a worker, so many come late
};

struct SimulationReport {
  std::string wrong;  ///< "" if every result is right
  std::uint64_t events = 0;
  std::uint64_t session_failures = 0;  ///< after which a job opened another session
  std::vector<WorkerCounts> counts;    ///< of the workers of the first job, of its last session
  std::vector<std::string> errors;     ///< of failed sessions
  double greatest_error = 0;           ///< of float sums, see error_of()
  Nanos duration{0};                   ///< simulated
};

SimulationPlan random_plan(std::uint64_t seed);
SimulationReport simulate(const SimulationPlan& plan);

}  // namespace tutti::in_network
