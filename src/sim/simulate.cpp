#include "src/sim/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "src/base/result.hpp"
#include "src/sim/simulation.hpp"

namespace tutti::sim {
namespace {

/// What a factor, a latency or a cost may be at most: virtual time is bounded, and products of
/// these stay finite.
constexpr double kMost = 1e15;

Status check_cost(std::string_view name, double value) {
  if (value >= 0 && value <= kMost) return ok_status();
  return make_error(Code::kInvalidArgument, "{} from 0 to {:g} was expected, found {}", name, kMost,
                    value);
}

Status check_factor(std::string_view name, std::int64_t which, std::int64_t count, double factor) {
  if (which < 0 || which >= count)
    return make_error(Code::kInvalidArgument,
                      "a {} below {} was expected to be slowed down, found {}", name, count, which);
  if (factor > 0 && factor <= kMost) return ok_status();
  return make_error(
      Code::kInvalidArgument,
      "{} {} was expected to be slowed down by a factor above 0 and up to {:g}, found "
      "{}",
      name, which, kMost, factor);
}

Status check_cpus(const Costs& costs, const Fabric& fabric) {
  if (costs.cpu_groups.empty()) return ok_status();
  const auto groups = costs.cpu_groups.size();
  if (groups != static_cast<std::size_t>(fabric.ranks()) || costs.cpus == 0)
    return make_error(Code::kInvalidArgument,
                      "groups of {} ranks that share {} CPUs: groups of all {} ranks and at least "
                      "a CPU were expected",
                      groups, costs.cpus, fabric.ranks());
  for (const std::int32_t group : costs.cpu_groups)
    if (group < 0 || group >= fabric.ranks())
      return make_error(Code::kInvalidArgument,
                        "groups of CPUs from 0 to {} were expected, found {}", fabric.ranks() - 1,
                        group);
  return ok_status();
}

Status check(const Costs& costs, const Fabric& fabric) {
  TUTTI_TRY(check_cost("a cost per message (us)", costs.message_us));
  TUTTI_TRY(check_cost("a cost per step (us)", costs.step_us));
  TUTTI_TRY(check_cost("a cost of copies (ps per byte)", costs.copy_ps_per_byte));
  TUTTI_TRY(check_cost("a cost of reductions (ps per byte)", costs.reduce_ps_per_byte));
  TUTTI_TRY(check_cost("a share of formatted bytes", costs.formats.share));
  TUTTI_TRY(check_cost("a cost of encoding (ps per byte)", costs.formats.encode_ps_per_byte));
  TUTTI_TRY(check_cost("a cost of decoding (ps per byte)", costs.formats.decode_ps_per_byte));
  TUTTI_TRY(check_cpus(costs, fabric));
  for (const SlowRank& slow : costs.slow_ranks)
    TUTTI_TRY(check_factor("rank", slow.rank, fabric.ranks(), slow.factor));
  const auto links = static_cast<std::int64_t>(fabric.links().size());
  for (const SlowLink& slow : costs.slow_links)
    TUTTI_TRY(check_factor("link", slow.link, links, slow.factor));
  for (const Link& link : fabric.links()) {
    TUTTI_TRY(check_cost("a latency (us)", link.latency));
    if (!(link.bandwidth > 0 && link.bandwidth <= kMost))
      return make_error(Code::kInvalidArgument,
                        "{}: a bandwidth above 0 and up to {:g} GB/s was expected, found {}",
                        link.name, kMost, link.bandwidth);
  }
  return ok_status();
}

Status check(const ir::Schedule& schedule, const Amount& amount, const Fabric& fabric) {
  if (schedule.request.ranks > fabric.ranks())
    return make_error(
        Code::kInvalidArgument,
        "{}: the schedule has {} ranks, the fabric {}; at least as many were expected",
        schedule.algorithm, schedule.request.ranks, fabric.ranks());
  if (amount.element_bytes == 0 ||
      size_of_call(schedule.request, amount) > static_cast<double>(std::uint64_t{1} << 60U))
    return make_error(Code::kInvalidArgument,
                      "{} elements of {} bytes a block: elements of at least a byte and at most "
                      "2^60 bytes in all were expected",
                      amount.count, amount.element_bytes);
  return ok_status();
}

Status check_ports(const ir::Schedule& schedule, const Costs& costs) {
  if (schedule.groups.empty() || costs.ports == 0) return ok_status();
  return make_error(Code::kInvalidArgument,
                    "{}: the network adds or copies for groups, which the model of {} ports does "
                    "not have; no limit of ports was expected",
                    schedule.algorithm, costs.ports);
}

Status check_rounds(const ir::Schedule& schedule, const SimulateOptions& options) {
  if (options.rounds.empty()) return ok_status();
  const auto is_of = [](const ir::Program& program, const std::vector<std::uint32_t>& rounds) {
    return program.steps.size() == rounds.size();
  };
  if (std::ranges::equal(schedule.programs, options.rounds, is_of)) return ok_status();
  return make_error(Code::kInvalidArgument,
                    "{}: rounds of all its steps and no others were expected", schedule.algorithm);
}

}  // namespace

Result<Outcome> simulate(const ir::Schedule& schedule, const Amount& amount, Fabric& fabric,
                         const Costs& costs, const SimulateOptions& options) {
  TUTTI_TRY(check(schedule, amount, fabric));
  TUTTI_TRY(check(costs, fabric));
  TUTTI_TRY(check_ports(schedule, costs));
  TUTTI_TRY(check_rounds(schedule, options));
  const Volumes volumes(schedule, amount, options.slice_bytes);
  TUTTI_ASSIGN(TaskGraph graph, TaskGraph::create(schedule, volumes.slices()));
  TUTTI_ASSIGN(const Traffic traffic, Traffic::plan(schedule, fabric, graph, options.rounds));
  TUTTI_ASSIGN(const GroupTraffic groups,
               GroupTraffic::plan(schedule, fabric, graph, options.rounds));
  Simulation simulation({schedule, volumes, fabric, traffic, groups, costs, options},
                        std::move(graph));
  TUTTI_ASSIGN(Outcome outcome, simulation.run());
  if (outcome.time_us > 0) {
    outcome.algorithm_bandwidth =
        size_of_call(schedule.request, amount) / outcome.time_us / 1e3;  // bytes/us to GB/s
    outcome.bus_bandwidth = outcome.algorithm_bandwidth * bus_factor(schedule.request);
  }
  return outcome;
}

double size_of_call(const ir::Request& request, const Amount& amount) {
  return static_cast<double>(ir::largest_block_count(request)) * static_cast<double>(amount.count) *
         static_cast<double>(amount.element_bytes);
}

double bus_factor(const ir::Request& request) {
  const double n = request.ranks;
  switch (request.collective) {
    case Collective::kAllReduce:
      return 2 * (n - 1) / n;
    case Collective::kBroadcast:
    case Collective::kReduce:
      return 1;
    default:
      return (n - 1) / n;
  }
}

}  // namespace tutti::sim
