#include "src/cost/predict.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/result.hpp"
#include "src/ir/chunking.hpp"
#include "src/ir/verify.hpp"
#include "src/lower/lower.hpp"

namespace tutti {
namespace {

sim::MessageCosts costs_of(const MessageCalibration& message) {
  return {.send_us = message.send_us,
          .receive_us = message.receive_us,
          .latency_us = message.latency_us};
}

/// Hosts that each have a link to a network that never blocks, and one from it.
class HostsFabric final : public sim::Fabric {
 public:
  HostsFabric(lower::Placement placement, const Calibration& calibration)
      : placement_(std::move(placement)), calibration_(calibration) {
    const std::int32_t hosts = 1 + *std::ranges::max_element(placement_.host);
    for (std::int32_t host = 0; host < hosts; ++host)
      for (const std::string_view way : {"to", "from"})
        links_.push_back(
            {calibration.between_gbs, 0, fmt::format("host {} {} network", host, way)});
  }

  [[nodiscard]] std::int32_t ranks() const override {
    return static_cast<std::int32_t>(placement_.host.size());
  }
  [[nodiscard]] std::span<const sim::Link> links() const override { return links_; }
  [[nodiscard]] Result<std::vector<sim::LinkId>> path(Rank from, Rank to, Lane /*lane*/) override {
    if (placement_.mapped(from, to)) return std::vector<sim::LinkId>{};
    return std::vector{2 * host(from), 2 * host(to) + 1};
  }
  [[nodiscard]] sim::MessageCosts costs(Rank from, Rank to) const override {
    if (!placement_.mapped(from, to)) return costs_of(calibration_.between);
    sim::MessageCosts costs = costs_of(calibration_.inside);
    costs.send_ps_per_byte = costs.receive_ps_per_byte = calibration_.copy_ps_per_byte;
    return costs;
  }

 private:
  [[nodiscard]] sim::LinkId host(Rank rank) const {
    return static_cast<sim::LinkId>(placement_.host[static_cast<std::size_t>(rank)]);
  }

  lower::Placement placement_;
  Calibration calibration_;
  std::vector<sim::Link> links_;
};

/// The links of another fabric, and what messages cost the ranks themselves. Operations of groups
/// cost them nothing, because nobody has measured that.
class WithCosts final : public sim::Fabric {
 public:
  WithCosts(sim::Fabric& fabric, const lower::Placement& placement, const Calibration& calibration)
      : fabric_(fabric), placement_(placement), calibration_(calibration) {}

  [[nodiscard]] std::int32_t ranks() const override { return fabric_.ranks(); }
  [[nodiscard]] std::span<const sim::Link> links() const override { return fabric_.links(); }
  [[nodiscard]] Result<std::vector<sim::LinkId>> path(Rank from, Rank to, Lane lane) override {
    return fabric_.path(from, to, lane);
  }
  [[nodiscard]] Result<std::vector<sim::NetworkTree>> trees(
      std::span<const ir::Group> groups) override {
    return fabric_.trees(groups);
  }
  [[nodiscard]] sim::MessageCosts costs(Rank from, Rank to) const override {
    const bool inside = placement_.mapped(from, to);
    sim::MessageCosts costs = costs_of(inside ? calibration_.inside : calibration_.between);
    costs.latency_us = 0;
    return costs;
  }

 private:
  sim::Fabric& fabric_;
  const lower::Placement& placement_;
  const Calibration& calibration_;
};

Status check(const ir::Schedule& schedule, const lower::Placement& placement) {
  const auto ranks = static_cast<std::size_t>(schedule.request.ranks);
  if (placement.host.size() != ranks)
    return make_error(Code::kInvalidArgument,
                      "{}: the schedule has {} ranks, the placement {}; as many were expected",
                      schedule.algorithm, ranks, placement.host.size());
  for (const std::int32_t host : placement.host)
    if (host < 0 || static_cast<std::size_t>(host) >= placement.host.size())
      return make_error(Code::kInvalidArgument,
                        "host {}: hosts are numbered from 0, and no more than {} ranks", host,
                        placement.host.size());
  return ok_status();
}

/// Bytes of the slices in which the executor runs it.
Result<std::size_t> slice_bytes_of(const ir::Schedule& schedule, const ir::Proof& proof,
                                   const sim::Amount& amount, const lower::Placement& placement,
                                   const PredictOptions& options) {
  TUTTI_ASSIGN(const lower::Lowered lowered, lower::lower(schedule, proof, placement));
  const ir::Chunking chunking(amount.count, amount.element_bytes, schedule.chunks_per_block);
  return amount.element_bytes * lower::slice_elements(lowered, chunking.max_size(),
                                                      amount.element_bytes, options.staging_bytes,
                                                      options.unit);
}

Status check_tasks(const ir::Schedule& schedule, const sim::Amount& amount, std::size_t slice_bytes,
                   std::uint64_t most) {
  std::uint64_t steps = 0;
  for (const ir::Program& program : schedule.programs) steps += program.steps.size();
  const ir::Chunking chunking(amount.count, amount.element_bytes, schedule.chunks_per_block);
  const std::uint64_t chunk = chunking.max_size() * amount.element_bytes;
  const std::uint64_t slices = slice_bytes == 0 ? 1 : chunk / slice_bytes + 1;
  if (steps <= most / slices) return ok_status();
  return make_error(Code::kUnavailable,
                    "{}: {} steps in {} slices are more than the {} that are to be simulated",
                    schedule.algorithm, steps, slices, most);
}

Result<sim::Outcome> run(const ir::Schedule& schedule, const sim::Amount& amount,
                         const lower::Placement& placement, sim::Fabric& fabric,
                         const Calibration& calibration, const PredictOptions& options) {
  // First: what needs a tree is not lowered for a network without one.
  if (const auto trees = fabric.trees(schedule.groups); !trees) return trees.error();
  const sim::Costs costs = {.step_us = calibration.step_us,
                            .copy_ps_per_byte = calibration.copy_ps_per_byte,
                            .reduce_ps_per_byte = calibration.reduce_ps_per_byte,
                            .formats = options.formats,
                            .cpu_groups = placement.host,
                            .cpus = calibration.cpus_per_host};
  sim::SimulateOptions how = {.on_step = options.on_step, .on_progress = options.on_progress};
  if (options.slice_bytes) {
    how.slice_bytes = *options.slice_bytes;
  } else {
    TUTTI_ASSIGN(ir::Proof proof, ir::verify(schedule));
    TUTTI_ASSIGN(how.slice_bytes, slice_bytes_of(schedule, proof, amount, placement, options));
    how.rounds = std::move(proof.round);
  }
  if (options.most_tasks)
    TUTTI_TRY(check_tasks(schedule, amount, how.slice_bytes, *options.most_tasks));
  TUTTI_ASSIGN(sim::Outcome outcome, sim::simulate(schedule, amount, fabric, costs, how));
  outcome.time_us += calibration.call_us;
  if (outcome.time_us > 0) {
    outcome.algorithm_bandwidth =
        sim::size_of_call(schedule.request, amount) / outcome.time_us / 1e3;  // bytes/us to GB/s
    outcome.bus_bandwidth = outcome.algorithm_bandwidth * sim::bus_factor(schedule.request);
  }
  return outcome;
}

}  // namespace

std::unique_ptr<sim::Fabric> hosts_fabric(const lower::Placement& placement,
                                          const Calibration& calibration) {
  return std::make_unique<HostsFabric>(placement, calibration);
}

Result<sim::Outcome> predict(const ir::Schedule& schedule, const sim::Amount& amount,
                             const lower::Placement& placement, const Calibration& calibration,
                             const PredictOptions& options) {
  TUTTI_TRY(check(schedule, placement));
  const std::unique_ptr<sim::Fabric> fabric = hosts_fabric(placement, calibration);
  return run(schedule, amount, placement, *fabric, calibration, options);
}

Result<sim::Outcome> predict(const ir::Schedule& schedule, const sim::Amount& amount,
                             const lower::Placement& placement, sim::Fabric& fabric,
                             const Calibration& calibration, const PredictOptions& options) {
  TUTTI_TRY(check(schedule, placement));
  if (fabric.ranks() != schedule.request.ranks)
    return make_error(Code::kInvalidArgument,
                      "{}: the schedule has {} ranks, the fabric {}; as many were expected",
                      schedule.algorithm, schedule.request.ranks, fabric.ranks());
  WithCosts with_costs(fabric, placement, calibration);
  return run(schedule, amount, placement, with_costs, calibration, options);
}

}  // namespace tutti
