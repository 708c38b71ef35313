#include "tools/sim/run.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "algorithms/algorithms.hpp"
#include "algorithms/forest.hpp"
#include "src/base/nearest.hpp"
#include "src/base/result.hpp"
#include "src/codec/rates.hpp"
#include "src/cost/predict.hpp"
#include "src/ir/compress.hpp"
#include "src/ir/verify.hpp"
#include "src/topo/forest/cables.hpp"
#include "src/topo/forest/from_topology.hpp"
#include "tools/sim/limit.hpp"

namespace tutti::simtool {
namespace {

namespace forest = topo::forest;

bool has_forest(const Machine& machine, const ir::Request& request) {
  return machine.topology != nullptr && machine.ranks() >= 2 && forest::carries(request.collective);
}

/// Whether the network adds for the groups of the algorithm's schedule.
bool has_trees(const Machine& machine, const ir::Algorithm& algorithm, const ir::Request& request) {
  if (!adding_of(machine).anywhere() || !algorithm.supports(request)) return false;
  if (!check_memory_to_generate(algorithm, request)) return false;
  const auto schedule = algorithm.generate(request);
  return schedule && machine.fabric->trees(schedule->groups);
}

Status check_trees(const Machine& machine, const ir::Schedule& schedule) {
  const auto trees = machine.fabric->trees(schedule.groups);
  if (trees) return ok_status();
  return make_error(trees.error().code,
                    "{}: {}; name a network that adds: --in-network, or a topology such as "
                    "gpu:2x8,nvls=1,sharp=8",
                    schedule.algorithm, trees.error().what);
}

/// `hides_latency`: direct hops come first, and data on longer ways has two lanes.
Result<Routed> plan_forest(const Machine& machine, const ir::Request& request, bool hides_latency) {
  TUTTI_ASSIGN(const forest::NotedNetwork noted,
               forest::network_of(*machine.topology, machine.placement));
  TUTTI_ASSIGN(algorithms::RoutedSchedule routed,
               algorithms::planned_forest(request, noted.network, hides_latency));
  Routed planned = {std::move(routed.schedule), {}};
  forest::Cables cables(*machine.topology, noted);
  for (const algorithms::LaneRoute& lane : routed.routes) {
    TUTTI_ASSIGN(std::vector<topo::LinkId> links, cables.lay(lane.route));
    planned.paths.push_back({lane.from, lane.to, lane.lane, std::move(links)});
  }
  return planned;
}

/// The time of 16 MB, of which latency is a part that shows, in few slices and with free messages.
Result<double> time_on_trial(const Machine& machine, const ir::Request& request,
                             const Routed& routed) {
  constexpr std::size_t kBytes = 16'000'000;
  constexpr std::size_t kSlices = 48;
  const sim::Amount amount = amount_for(request, kBytes);
  const std::size_t chunk = amount.count * amount.element_bytes / routed.schedule.chunks_per_block;
  sim::RoutedFabric fabric(*machine.fabric, routed.paths);
  TUTTI_ASSIGN(const sim::Outcome outcome,
               sim::simulate(routed.schedule, amount, fabric, {},
                             {.slice_bytes = std::max(kElementBytes, chunk / kSlices)}));
  return outcome.time_us;
}

/// Whether it pays to hide latency depends on what the trees share, so where a trial takes less
/// than about a second, both are tried.
Result<Routed> plan_best_forest(const Machine& machine, const ir::Request& request) {
  constexpr std::int32_t kMostRanks = 32;
  constexpr std::uint32_t kMostTrees = 4;
  constexpr double kClearly = 0.995;  // worth the messages
  TUTTI_ASSIGN(Routed flat, plan_forest(machine, request, false));
  if (request.collective != Collective::kAllGather || machine.ranks() > kMostRanks ||
      flat.schedule.chunks_per_block > kMostTrees)
    return flat;
  TUTTI_ASSIGN(Routed hiding, plan_forest(machine, request, true));
  TUTTI_ASSIGN(const double flat_us, time_on_trial(machine, request, flat));
  TUTTI_ASSIGN(const double hiding_us, time_on_trial(machine, request, hiding));
  return hiding_us < kClearly * flat_us ? std::move(hiding) : std::move(flat);
}

std::string described(const ir::Request& request, std::string_view algorithm, std::size_t bytes) {
  return fmt::format("{} of {} bytes by {}", name_of(request.collective), bytes, algorithm);
}

/// What all sizes of one algorithm share.
struct Job {
  const Plan& plan;
  Machine& machine;
  const Bounds& bounds;
};

/// With the calibration, if there is one.
Result<sim::Outcome> outcome_of(const Job& job, const ir::Schedule& schedule,
                                const sim::Amount& amount, sim::Fabric& fabric,
                                const sim::SimulateOptions& options) {
  const Machine& machine = job.machine;
  if (!machine.calibration) return sim::simulate(schedule, amount, fabric, job.plan.costs, options);
  PredictOptions how = {.slice_bytes = options.slice_bytes,
                        .on_step = options.on_step,
                        .on_progress = options.on_progress};
  how.formats = job.plan.costs.formats;
  if (!machine.is_hosts)
    return predict(schedule, amount, machine.on_host, fabric, *machine.calibration, how);
  how.slice_bytes = job.plan.slice_bytes;
  if (job.plan.compressed) how.unit = job.plan.compressed->unit;
  return predict(schedule, amount, machine.on_host, *machine.calibration, how);
}

Result<Point> simulate_at(const Job& job, const Routed& routed, const std::string& algorithm,
                          std::size_t size, sim::SimulateOptions options) {
  const sim::Amount amount = amount_for(job.plan.request, size);
  options.slice_bytes =
      job.plan.slice_bytes.value_or(slice_for(routed.schedule, amount, job.plan.costs));
  TUTTI_TRY(check_memory_to_simulate(routed.schedule, amount, options.slice_bytes));
  sim::RoutedFabric fabric(*job.machine.fabric, routed.paths);
  Point point;
  point.algorithm = algorithm;
  point.bytes = static_cast<std::size_t>(sim::size_of_call(job.plan.request, amount));
  TUTTI_ASSIGN(point.outcome, outcome_of(job, routed.schedule, amount, fabric, options));
  if (job.plan.compressed || job.machine.is_hosts) return point;
  point.bound = job.bounds.at(static_cast<double>(point.bytes));
  constexpr double kRounding = 1 - 1e-9;
  if (point.outcome.time_us < point.bound->us * kRounding)
    return make_error(Code::kInternal,
                      "internal error: {} was simulated to take {:.6f} µs, less than the lower "
                      "bound of {:.6f} µs ({}); one of them is wrong, please report it",
                      described(job.plan.request, algorithm, point.bytes), point.outcome.time_us,
                      point.bound->us, point.bound->reason);
  return point;
}

/// The schedules of a plan by algorithm. They serve all sizes, so they are kept as long as they are
/// small, and otherwise made again for each.
class Schedules {
 public:
  Schedules(const Plan& plan, const Machine& machine) : plan_(plan), machine_(machine) {}

  /// Valid until the next call.
  Result<const Routed*> of(const std::string& algorithm) {
    constexpr std::size_t kMostSteps = 8'000'000;  // a gigabyte
    if (const auto known = kept_.find(algorithm); known != kept_.end()) return &known->second;
    last_ = {};  // before the next takes its memory
    TUTTI_ASSIGN(last_, schedule_for(algorithm, machine_, plan_.request));
    if (plan_.compressed) {
      TUTTI_ASSIGN(last_, compressed(std::move(last_)));
    }
    std::size_t steps = 0;
    for (const ir::Program& program : last_.schedule.programs) steps += program.steps.size();
    if (kept_steps_ + steps > kMostSteps) return &last_;
    kept_steps_ += steps;
    return &kept_.emplace(algorithm, std::move(last_)).first->second;
  }

 private:
  const Plan& plan_;
  const Machine& machine_;
  std::map<std::string, Routed> kept_;
  std::size_t kept_steps_ = 0;
  Routed last_;
};

Bounds bounds_for(const Plan& plan, const Machine& machine) {
  return {machine,
          plan.request,
          {.ports = plan.costs.ports, .reduce_ps_per_byte = plan.costs.reduce_ps_per_byte}};
}

}  // namespace

double Point::efficiency() const {
  return bound && outcome.time_us > 0 ? std::min(1.0, bound->us / outcome.time_us) : 0;
}

std::vector<std::string> algorithms_for(const Machine& machine, const ir::Request& request) {
  std::vector<std::string> names;
  for (const ir::Algorithm& algorithm : algorithms::all())
    if (algorithm.supports(request)) names.emplace_back(algorithm.name);
  for (const ir::Algorithm& algorithm : algorithms::in_network())
    if (has_trees(machine, algorithm, request)) names.emplace_back(algorithm.name);
  if (has_forest(machine, request)) names.emplace_back(kForest);
  return names;
}

sim::FormatCosts Compressed::costs_for(std::size_t element_bytes) const {
  const codec::Format& format = *compression.format;
  const codec::Rates rates = codec::rates_of(format, compression.random);
  return sim::FormatCosts::of_values(format.traits().bits, rates.encode_ps, rates.decode_ps,
                                     element_bytes);
}

Result<Compressed> compressed_as(std::string_view text) {
  Compressed made;
  TUTTI_ASSIGN(made.compression, codec::parse_compression(text));
  const codec::Format& format = *made.compression.format;
  made.costs = made.costs_for(kElementBytes);
  made.unit = {format.traits().block, format.bytes(format.traits().block)};
  return made;
}

Result<Routed> compressed(Routed routed) {
  for (const auto messages :
       {ir::CompressedMessages::kBetweenHosts, ir::CompressedMessages::kAll}) {
    if (messages == ir::CompressedMessages::kBetweenHosts && routed.schedule.request.layout.empty())
      continue;
    ir::Schedule schedule = ir::compress(routed.schedule, messages);
    TUTTI_ASSIGN(const ir::Proof proof, ir::verify(schedule));
    if (!proof.same_bits.value_or(true)) continue;
    routed.schedule = std::move(schedule);
    routed.compressed = messages;
    return routed;
  }
  return make_error(Code::kUnsupported,
                    "{} would not give all ranks the same bits of what is compressed: name another "
                    "algorithm",
                    routed.schedule.algorithm);
}

Result<Routed> schedule_for(const std::string& name, const Machine& machine,
                            const ir::Request& request) {
  if (name == kForest) {
    if (has_forest(machine, request)) return plan_best_forest(machine, request);
    return make_error(Code::kInvalidArgument,
                      "forest: needs --topology with 2 ranks or more, and all_gather, "
                      "reduce_scatter, all_reduce, broadcast or reduce");
  }
  std::vector<std::string> names = {std::string(kForest), "all"};
  for (const ir::Algorithm& algorithm : algorithms::with_in_network()) {
    names.emplace_back(algorithm.name);
    if (algorithm.name != name) continue;
    if (algorithm.supports(request)) {
      TUTTI_TRY(check_memory_to_generate(algorithm, request));
      TUTTI_ASSIGN(ir::Schedule schedule, algorithm.generate(request));
      TUTTI_TRY(check_trees(machine, schedule));
      return Routed{std::move(schedule), {}};
    }
    return make_error(Code::kInvalidArgument, "{} does not do {} of {} ranks here; {} do", name,
                      name_of(request.collective), request.ranks,
                      fmt::join(algorithms_for(machine, request), ", "));
  }
  const std::string meant = nearest(name, names);
  return make_error(Code::kInvalidArgument, "there is no algorithm '{}'; {}", name,
                    meant.empty() ? fmt::format("there are {}", fmt::join(names, ", "))
                                  : fmt::format("did you mean '{}'?", meant));
}

sim::Amount amount_for(const ir::Request& request, std::size_t bytes) {
  const double element = sim::size_of_call(request, {1, kElementBytes});
  const auto each = static_cast<std::size_t>(element);
  return {std::max<std::size_t>(1, bytes / each), kElementBytes};
}

std::size_t slice_for(const ir::Schedule& schedule, const sim::Amount& amount,
                      const sim::Costs& costs) {
  if (schedule.algorithm != kForest) return 0;
  constexpr std::size_t kMostTasks = 8'000'000;
  constexpr std::size_t kFewest = 16;
  constexpr std::size_t kEnough = 512;  // a tree that is ten high is then late by 2 %
  const std::size_t least = costs.message_us > 0 ? 4096 : 64;
  std::size_t steps = 1;
  for (const ir::Program& program : schedule.programs) steps += program.steps.size();
  const std::size_t slices = std::clamp(kMostTasks / steps, kFewest, kEnough);
  const std::size_t chunk = amount.count * amount.element_bytes / schedule.chunks_per_block;
  return std::max(least, chunk / slices);
}

Result<std::vector<Point>> run(const Plan& plan, Machine& machine, const Progress& progress,
                               const OnPoint& on_point) {
  TUTTI_ASSIGN(const Machine present, slowed(machine, plan.costs.slow_links));
  const Bounds bounds = bounds_for(plan, present);
  const Job job = {plan, machine, bounds};
  Schedules schedules(plan, plan.is_stale ? machine : present);
  std::vector<Point> points;
  double done = 0;
  const auto all = static_cast<double>(plan.algorithms.size() * plan.sizes.size());
  for (const std::size_t size : plan.sizes) {
    for (const std::string& algorithm : plan.algorithms) {
      sim::SimulateOptions options;
      if (progress)
        options.on_progress = [&](std::uint64_t tasks, std::uint64_t all_tasks) {
          const double share = static_cast<double>(tasks) / static_cast<double>(all_tasks);
          progress((done + share) / all, described(plan.request, algorithm, size));
          return true;
        };
      TUTTI_ASSIGN(const Routed* routed, schedules.of(algorithm));
      TUTTI_ASSIGN(Point point, simulate_at(job, *routed, algorithm, size, options));
      if (on_point) TUTTI_TRY(on_point(point));
      points.push_back(std::move(point));
      ++done;
    }
  }
  return points;
}

Result<Traced> trace(const Plan& plan, Machine& machine) {
  TUTTI_ASSIGN(const Machine present, slowed(machine, plan.costs.slow_links));
  const Bounds bounds = bounds_for(plan, present);
  const std::string& algorithm = plan.algorithms.front();
  TUTTI_ASSIGN(Routed routed,
               schedule_for(algorithm, plan.is_stale ? machine : present, plan.request));
  std::vector<sim::StepTime> steps;
  sim::SimulateOptions options;
  options.on_step = [&](const sim::StepTime& step) { steps.push_back(step); };
  TUTTI_ASSIGN(Point point, simulate_at({plan, machine, bounds}, routed, algorithm,
                                        plan.sizes.front(), options));
  return Traced{std::move(routed.schedule), std::move(point), std::move(steps)};
}

}  // namespace tutti::simtool
