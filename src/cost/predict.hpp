// Predicts how long a call takes. Runs the simulator (src/sim) with the constants of a calibration,
// with the executor's slices and order of steps.
//
// The model adds to the simulator's:
//   - Ranks of a host exchange messages through its memory: the sender stores a message and the
//     receiver loads it, both at the speed of copies.
//   - Messages between hosts pass one network interface of each host. It carries
//     Calibration::between_gbs in each direction, which the host's ranks share.
//   - The ranks of a host take turns on Calibration::cpus_per_host CPUs.
// It does not know the network behind the interfaces; pass a fabric that does if you have one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "src/cost/calibration.hpp"
#include "src/ir/schedule.hpp"
#include "src/lower/program.hpp"
#include "src/lower/slices.hpp"
#include "src/sim/fabric.hpp"
#include "src/sim/simulate.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct PredictOptions {
  /// As in sim::SimulateOptions, with steps in any order. If unset, uses the executor's slices and
  /// order of steps; this lowers the schedule.
  std::optional<std::size_t> slice_bytes = {};
  std::size_t staging_bytes = std::size_t{1} << 20U;  ///< TUTTI_STAGING_BYTES
  /// Of schedules with formats, and how they lie in slots and messages.
  sim::FormatCosts formats = {};
  lower::SlotUnit unit = {};
  /// Most steps times slices; kUnavailable beyond it. If unset, sim::simulate()'s limit.
  std::optional<std::uint64_t> most_tasks = {};
  /// As in sim::SimulateOptions; steps begin when the call has begun.
  std::function<void(const sim::StepTime&)> on_step = {};
  std::function<bool(std::uint64_t done, std::uint64_t all)> on_progress = {};
};

/// The fabric that the first predict() uses. Link 2h leads from host h to the network, link 2h + 1
/// from the network to host h. Pass the same placement as to predict().
std::unique_ptr<sim::Fabric> hosts_fabric(const lower::Placement& placement,
                                          const Calibration& calibration);

/// Predicts a call of ranks that are placed on hosts this way. A pure function. Fails as
/// sim::simulate() does, as ir::verify() does if the schedule cannot run, and with kInvalidArgument
/// if schedule and placement have different numbers of ranks.
Result<sim::Outcome> predict(const ir::Schedule& schedule, const sim::Amount& amount,
                             const lower::Placement& placement, const Calibration& calibration,
                             const PredictOptions& options = {});

/// The same with links and latencies from `fabric`: a topology (sim::TopologyFabric) or a switch.
/// The calibration gives the work of ranks and CPUs. Its `between_gbs` and its latencies are not
/// used.
Result<sim::Outcome> predict(const ir::Schedule& schedule, const sim::Amount& amount,
                             const lower::Placement& placement, sim::Fabric& fabric,
                             const Calibration& calibration, const PredictOptions& options = {});

}  // namespace tutti
