// What a call will take: the simulator (src/sim) with the constants of a calibration, with the
// slices that the executor will cut and in its order of steps.
//
// The model, besides the simulator's:
//   - Ranks of a host exchange messages through its memory: the sender stores a message, the
//     receiver loads it, each at the speed of copies.
//   - Messages between hosts leave through one network interface of the host and enter through one,
//     of Calibration::between_gbs in each direction, which the ranks of a host share.
//   - The ranks of a host take turns at Calibration::cpus_per_host CPUs.
// It does not know the network behind the interfaces; a fabric that does can be given instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "src/cost/calibration.hpp"
#include "src/ir/schedule.hpp"
#include "src/lower/program.hpp"
#include "src/sim/fabric.hpp"
#include "src/sim/simulate.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct PredictOptions {
  /// As sim::SimulateOptions has it, and steps in any order. Unset: the executor's slices, to find
  /// which the schedule is lowered, and its order of steps.
  std::optional<std::size_t> slice_bytes = {};
  std::size_t staging_bytes = std::size_t{1} << 20U;  ///< TUTTI_STAGING_BYTES
  /// Steps times slices; kUnavailable where there are more. None: as many as sim::simulate() takes.
  std::optional<std::uint64_t> most_tasks = {};
  /// As sim::SimulateOptions has them; steps begin when the call has begun.
  std::function<void(const sim::StepTime&)> on_step = {};
  std::function<bool(std::uint64_t done, std::uint64_t all)> on_progress = {};
};

/// What the first predict() runs on: link 2h leads from host h to the network, link 2h + 1 from the
/// network to it. The placement must be as there.
std::unique_ptr<sim::Fabric> hosts_fabric(const lower::Placement& placement,
                                          const Calibration& calibration);

/// Of a call by ranks that live on these hosts. A pure function. Errors of sim::simulate(), of
/// ir::verify() where the schedule is none that can run, and kInvalidArgument where it has not as
/// many ranks as the placement.
Result<sim::Outcome> predict(const ir::Schedule& schedule, const sim::Amount& amount,
                             const lower::Placement& placement, const Calibration& calibration,
                             const PredictOptions& options = {});

/// The same where links and their latencies are the fabric's: of a topology (sim::TopologyFabric),
/// or a switch. What the ranks do for messages, and what the CPUs do, is the calibration's;
/// its `between_gbs` and its latencies are not used.
Result<sim::Outcome> predict(const ir::Schedule& schedule, const sim::Amount& amount,
                             const lower::Placement& placement, sim::Fabric& fabric,
                             const Calibration& calibration, const PredictOptions& options = {});

}  // namespace tutti
