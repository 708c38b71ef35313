#include "tools/sim/options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "algorithms/algorithms.hpp"
#include "src/base/nearest.hpp"
#include "src/base/result.hpp"
#include "tools/program/sizes.hpp"
#include "tools/sim/limit.hpp"
#include "tools/sim/report.hpp"

namespace tutti::simtool {
namespace {

constexpr double kMost = 1e9;    ///< of any cost, bandwidth or factor
constexpr double kLeast = 1e-6;  ///< of a bandwidth
constexpr std::size_t kLargestCostsFile = 1U << 20U;
constexpr std::uint32_t kMostPorts = 1U << 20U;

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (int i = 0; i < static_cast<int>(Collective::kSend); ++i)
    names.emplace_back(name_of(static_cast<Collective>(i)));
  return names;
}

Collective collective_named(const std::string& name) {
  const auto names = collective_names();
  return static_cast<Collective>(std::ranges::find(names, name) - names.begin());
}

Result<std::vector<std::size_t>> sizes_of(const Options& options) {
  if (options.sizes.empty()) {
    TUTTI_ASSIGN(const std::size_t min, tools::parse_size(options.min_bytes));
    TUTTI_ASSIGN(const std::size_t max, tools::parse_size(options.max_bytes));
    TUTTI_ASSIGN(const std::size_t step, tools::parse_size(options.step_bytes));
    return tools::sizes_of({min, max, step, step > 0 ? 1 : options.step_factor});
  }
  std::vector<std::size_t> sizes;
  for (const std::string& text : options.sizes) {
    TUTTI_ASSIGN(const std::size_t size, tools::parse_size(text));
    sizes.push_back(size);
  }
  std::ranges::sort(sizes);
  return sizes;
}

Status check_sizes(const std::vector<std::size_t>& sizes) {
  if (sizes.front() >= kElementBytes) return ok_status();
  return make_error(Code::kInvalidArgument,
                    "a size of {} bytes holds no element: the least is {}, one float",
                    sizes.front(), kElementBytes);
}

/// "NAME=FACTOR"; names may contain '='.
struct Slowed {
  std::string name;
  double factor = 1;
};

Result<Slowed> parse_slowed(std::string_view option, const std::string& text) {
  const std::size_t equals = text.rfind('=');
  Slowed slowed;
  if (equals != std::string::npos) {
    slowed.name = text.substr(0, equals);
    const char* const end = text.data() + text.size();
    const auto [rest, wrong] = std::from_chars(text.data() + equals + 1, end, slowed.factor);
    if (wrong == std::errc{} && rest == end && slowed.factor >= 1 && slowed.factor <= kMost)
      return slowed;
  }
  return make_error(Code::kInvalidArgument,
                    "{} '{}': write NAME=FACTOR with a factor from 1 to {:g}", option, text, kMost);
}

Result<sim::SlowRank> slow_rank(const std::string& text, const Machine& machine) {
  TUTTI_ASSIGN(const Slowed slowed, parse_slowed("--slow-rank", text));
  sim::SlowRank rank = {.factor = slowed.factor};
  const char* const end = slowed.name.data() + slowed.name.size();
  const auto [rest, wrong] = std::from_chars(slowed.name.data(), end, rank.rank);
  if (wrong == std::errc{} && rest == end && rank.rank >= 0 && rank.rank < machine.ranks())
    return rank;
  return make_error(Code::kInvalidArgument, "--slow-rank '{}': ranks are 0 to {}", text,
                    machine.ranks() - 1);
}

/// All links of the name: parallel cables have the same one.
Status slow_links(const std::string& text, const Machine& machine,
                  std::vector<sim::SlowLink>& slow) {
  TUTTI_ASSIGN(const Slowed slowed, parse_slowed("--slow-link", text));
  const auto links = machine.fabric->links();
  std::vector<std::string> names;
  bool found = false;
  for (sim::LinkId id = 0; id < links.size(); ++id) {
    names.push_back(links[id].name);
    if (links[id].name != slowed.name) continue;
    slow.push_back({id, slowed.factor});
    found = true;
  }
  if (found) return ok_status();
  const std::string meant = nearest(slowed.name, names);
  return make_error(Code::kInvalidArgument, "there is no link '{}'; {}", slowed.name,
                    meant.empty() ? "--links shows the names of those in use"
                                  : fmt::format("did you mean '{}'?", meant));
}

double ps_per_byte(double gigabytes_per_second) {
  return gigabytes_per_second > 0 ? 1e3 / gigabytes_per_second : 0;
}

/// {"message_us": 0.3, "step_us": 1, "copy_gbs": 900, "reduce_gbs": 450, "ports": 1}: any of them.
Status read_costs(const std::string& path, sim::Costs& costs) {
  TUTTI_ASSIGN(const std::string text, read_file(path, kLargestCostsFile));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return make_error(Code::kWrongData, "--costs {} is no JSON object", tools::shown_path(path));
  const std::vector<std::string> keys = {"message_us", "step_us", "copy_gbs", "reduce_gbs",
                                         "ports"};
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(keys, key) == keys.end())
      return make_error(Code::kWrongData, "--costs {} has a '{}'; there are {}",
                        tools::shown_path(path), key, fmt::join(keys, ", "));
    const double amount = value.is_number() ? value.get<double>() : -1;
    if (!(amount >= 0 && amount <= kMost))
      return make_error(Code::kWrongData, "--costs {}: {} is no number from 0 to {:g}",
                        tools::shown_path(path), key, kMost);
    if (key == "message_us") costs.message_us = amount;
    if (key == "step_us") costs.step_us = amount;
    if (key == "copy_gbs") costs.copy_ps_per_byte = ps_per_byte(amount);
    if (key == "reduce_gbs") costs.reduce_ps_per_byte = ps_per_byte(amount);
    if (key == "ports")
      costs.ports = static_cast<std::uint32_t>(std::min(amount, double{kMostPorts}));
  }
  return ok_status();
}

bool has_costs(const Options& options) {
  return !options.costs_file.empty() || options.message_us > 0 || options.step_us > 0 ||
         options.reduce_gbs > 0 || options.copy_gbs > 0 || options.ports > 0 ||
         !options.slow_ranks.empty() || !options.slow_links.empty();
}

Result<sim::Costs> costs_of(const Options& options, const Machine& machine) {
  if (machine.calibration && has_costs(options))
    return make_error(Code::kInvalidArgument,
                      "a calibration says what ranks cost: leave out --costs, --message-us, "
                      "--step-us, --reduce-gbs, --copy-gbs, --ports, --slow-rank and --slow-link, "
                      "or --calibration and --hosts");
  sim::Costs costs = {.message_us = options.message_us,
                      .step_us = options.step_us,
                      .copy_ps_per_byte = ps_per_byte(options.copy_gbs),
                      .reduce_ps_per_byte = ps_per_byte(options.reduce_gbs),
                      .ports = options.ports};
  if (!options.costs_file.empty()) TUTTI_TRY(read_costs(options.costs_file, costs));
  for (const std::string& text : options.slow_ranks) {
    TUTTI_ASSIGN(const sim::SlowRank rank, slow_rank(text, machine));
    costs.slow_ranks.push_back(rank);
  }
  const bool is_free = costs.message_us == 0 && costs.step_us == 0 && costs.copy_ps_per_byte == 0 &&
                       costs.reduce_ps_per_byte == 0;
  if (!costs.slow_ranks.empty() && is_free)
    return make_error(Code::kInvalidArgument,
                      "--slow-rank changes nothing where the work of ranks is free: give it a cost "
                      "(--message-us, --step-us, --reduce-gbs, --copy-gbs)");
  for (const std::string& text : options.slow_links)
    TUTTI_TRY(slow_links(text, machine, costs.slow_links));
  return costs;
}

/// All that can do it, but for those whose schedules are too large for this machine, and a forest
/// that would take minutes.
std::vector<std::string> default_algorithms(const Machine& machine, const ir::Request& request) {
  std::vector<std::string> names = algorithms_for(machine, request);
  for (const ir::Algorithm& algorithm : algorithms::with_in_network()) {
    const auto named = std::ranges::find(names, algorithm.name);
    if (named == names.end()) continue;
    if (const Status fits = check_memory_to_generate(algorithm, request); !fits) {
      tools::note(fmt::format("tutti sim: left out: {}\n", fits.error().what));
      names.erase(named);
    }
  }
  const bool has_forest = !names.empty() && names.back() == kForest;
  if (has_forest && names.size() > 1 && machine.ranks() > kMostForestRanks) {
    names.pop_back();
    tools::note(
        fmt::format("tutti sim: forest is left out, as it takes minutes with more than {} "
                    "ranks; ask for it with --algo forest\n",
                    kMostForestRanks));
  }
  return names;
}

/// Of algorithms that nobody named, those stay that need no network that adds: the k-port model has
/// none, and data in formats is not added.
void leave_out_in_network(Plan& plan) {
  for (const ir::Algorithm& algorithm : algorithms::in_network())
    std::erase(plan.algorithms, algorithm.name);
}

/// Of algorithms that nobody named, those stay that give all ranks the same bits when compressed.
void leave_out_unequal(const Machine& machine, Plan& plan) {
  std::erase_if(plan.algorithms, [&](const std::string& name) {
    auto routed = schedule_for(name, machine, plan.request);
    if (!routed) return false;
    const auto made = compressed(*std::move(routed));
    return !made && made.error().code == Code::kUnsupported;
  });
}

/// Pictures are of one size and one algorithm, or of many sizes.
Status check_pictures(const Options& options, const Plan& plan) {
  const bool is_one = plan.sizes.size() == 1 && plan.algorithms.size() == 1;
  if (!is_one && !(options.timeline_path.empty() && options.heat_path.empty()))
    return make_error(Code::kInvalidArgument,
                      "--timeline and --heat draw one size and one algorithm: give --sizes SIZE "
                      "--algo NAME");
  if (!options.timeline_path.empty() && plan.request.ranks > kMostTimelineRanks)
    return make_error(Code::kInvalidArgument,
                      "--timeline: {} ranks are more than the {} that can be read",
                      plan.request.ranks, kMostTimelineRanks);
  if (!options.svg_path.empty() && plan.sizes.size() < 2)
    return make_error(Code::kInvalidArgument,
                      "--svg draws bandwidth over size, which takes two sizes");
  return ok_status();
}

void add_machine_options(tools::CommandLine& app, MachineOptions& machine) {
  const auto topology =
      app.add_option("--topology", machine.topology,
                     "FILE (as `tutti topo --from` reads it), or a text: gpu:2x8, "
                     "torus:4x4, 4x dgx-h100 over ...");
  const auto uniform =
      app.add_option("--uniform", machine.uniform, "N ranks on one switch that never blocks")
          .in_range(1, 1 << 20);
  const auto two_level =
      app.add_option("--two-level", machine.two_level,
                     "NODESxRANKS: such a switch in each node, and one between the nodes");
  app.add_option("--hosts", machine.hosts,
                 "HOSTSxRANKS: plain hosts with a network interface each, whose ranks and "
                 "interfaces are as the calibration says");
  app.add_option("--calibration", machine.calibration,
                 "FILE by `tutti calibrate`: what ranks cost; the built-in one for --hosts");
  app.add_option("--alpha", machine.alpha_us, "of switches: us from rank to rank (5)")
      .in_range(0, kMost)
      .excludes(topology);
  app.add_option("--beta-gbs", machine.beta_gbs, "of switches: GB/s of a rank or its NIC (25)")
      .in_range(kLeast, kMost)
      .excludes(topology);
  app.add_option("--inner-alpha", machine.inner_alpha_us, "--two-level: us inside a node (1)")
      .in_range(0, kMost)
      .excludes(topology)
      .excludes(uniform)
      .needs(two_level);
  app.add_option("--inner-gbs", machine.inner_gbs, "--two-level: GB/s inside a node (450)")
      .in_range(kLeast, kMost)
      .excludes(topology)
      .excludes(uniform)
      .needs(two_level);
  app.add_flag("--in-network", machine.in_network,
               "the switch, of --two-level the one between nodes, adds and copies for groups")
      .excludes(topology);
  app.add_flag("--inner-in-network", machine.inner_in_network,
               "--two-level: the switches in the nodes do")
      .excludes(topology)
      .excludes(uniform)
      .needs(two_level);
}

void add_cost_options(tools::CommandLine& app, Options& options) {
  app.add_option("--message-us", options.message_us, "work of a rank for each message it sends")
      .in_range(0, kMost);
  app.add_option("--step-us", options.step_us, "of a copy or addition, however short")
      .in_range(0, kMost);
  app.add_option("--reduce-gbs", options.reduce_gbs, "speed of additions (free)")
      .in_range(0, kMost);
  app.add_option("--copy-gbs", options.copy_gbs, "speed of copies (free)").in_range(0, kMost);
  app.add_option("--ports", options.ports, "others that a rank sends to at a time (any number)")
      .in_range(0, kMostPorts);
  app.add_option("--costs", options.costs_file,
                 "FILE of JSON with message_us, step_us, reduce_gbs, copy_gbs, ports");
  app.add_option("--compress", options.compress,
                 "send data in this format, as in int8:block=128; encoding and decoding take as "
                 "long as here");
  app.add_option("--slow-rank", options.slow_ranks, "R=F: work of rank R takes F times as long");
  app.add_option("--slow-link", options.slow_links, "NAME=F: bandwidth of a link divided by F");
  app.add_flag("--stale-plan", options.stale_plan,
               "the forest was planned before links became slow");
}

void add_output_options(tools::CommandLine& app, Options& options) {
  app.add_flag("--links", options.links, "also the busiest links of each row");
  app.add_option("--csv", options.csv_path, "write the table as CSV");
  app.add_option("--json", options.json_path, "write results as JSON; '-': standard output");
  app.add_option("--svg", options.svg_path, "draw bus bandwidth over size");
  app.add_option("--timeline", options.timeline_path,
                 "draw what each rank does when (one size, one algorithm)");
  app.add_option("--heat", options.heat_path,
                 "draw how busy the links are (one size, one algorithm)");
}

}  // namespace

void add_options(tools::CommandLine& app, Options& options) {
  app.add_option("collective", options.collective, "what to simulate")
      .required()
      .one_of(collective_names());
  add_machine_options(app, options.machine);
  app.add_option("--algo", options.algorithms, "names, separated by commas; default: all that can")
      .comma_separated();
  const auto min = app.add_option("-b,--minbytes", options.min_bytes, "smallest size (1K)");
  const auto max = app.add_option("-e,--maxbytes", options.max_bytes, "largest size (1G)");
  auto factor = app.add_option("-f,--stepfactor", options.step_factor, "from size to size (4)");
  factor.in_range(2, 1 << 20);
  auto step =
      app.add_option("-i,--stepbytes", options.step_bytes, "instead: bytes from size to size");
  step.excludes(factor);
  app.add_option("--sizes", options.sizes, "instead of a range: 1K,64M,1G")
      .comma_separated()
      .excludes(min)
      .excludes(max)
      .excludes(factor)
      .excludes(step);
  app.add_option("-r,--root", options.root, "root rank").in_range(0, INT32_MAX);
  app.add_option("--slice", options.slice,
                 "cut chunks in slices of so many bytes, which follow each other (whole chunks; "
                 "of the forest thousands)");
  add_cost_options(app, options);
  add_output_options(app, options);
}

Result<Plan> make_plan(const Options& options, const Machine& machine) {
  Plan plan;
  plan.request.collective = collective_named(options.collective);
  plan.request.ranks = machine.ranks();
  plan.request.layout = machine.layout;
  plan.request.root = options.root;
  if (options.root >= machine.ranks() || (options.root > 0 && !rooted(plan.request.collective)))
    return make_error(Code::kInvalidArgument, "-r {}: {} of {} ranks has no such root",
                      options.root, options.collective, machine.ranks());
  TUTTI_ASSIGN(plan.sizes, sizes_of(options));
  TUTTI_TRY(check_sizes(plan.sizes));
  TUTTI_ASSIGN(plan.costs, costs_of(options, machine));
  if (!options.slice.empty()) {
    TUTTI_ASSIGN(plan.slice_bytes, tools::parse_size(options.slice));
  }
  if (!options.compress.empty()) {
    TUTTI_ASSIGN(plan.compressed, compressed_as(options.compress));
    plan.costs.formats = plan.compressed->costs;
  }
  plan.is_stale = options.stale_plan;
  plan.algorithms = options.algorithms;
  if (plan.algorithms.empty() || plan.algorithms == std::vector<std::string>{"all"}) {
    plan.algorithms = default_algorithms(machine, plan.request);
    if (plan.costs.ports > 0 || plan.compressed) leave_out_in_network(plan);
    if (plan.compressed) leave_out_unequal(machine, plan);
  }
  if (plan.algorithms.empty())
    return make_error(Code::kUnsupported, "no algorithm does {} of {} ranks", options.collective,
                      machine.ranks());
  TUTTI_TRY(check_pictures(options, plan));
  return plan;
}

}  // namespace tutti::simtool
