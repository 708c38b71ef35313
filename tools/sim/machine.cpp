#include "tools/sim/machine.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "src/base/cpus.hpp"
#include "src/base/result.hpp"
#include "src/cost/predict.hpp"
#include "src/sim/topology_fabric.hpp"
#include "src/topo/model/aggregation.hpp"
#include "tools/machines/machine.hpp"
#include "tools/machines/synthetic.hpp"
#include "tools/program/cli.hpp"
#include "tools/topo/source.hpp"

namespace tutti::simtool {
namespace {

constexpr std::int32_t kMostSwitchRanks = 1 << 20;

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

/// A grid where the text is that of one, whose ranks are numbered along its last dimension first.
ir::Layout grid_of(const std::string& text) {
  const Result<topo::Synthetic> synthetic = topo::parse_synthetic(text);
  if (!synthetic || synthetic->sizes.size() < 2) return {};
  if (synthetic->shape != topo::Synthetic::Shape::kTorus &&
      synthetic->shape != topo::Synthetic::Shape::kMesh)
    return {};
  return ir::Layout::grid({synthetic->sizes.rbegin(), synthetic->sizes.rend()});
}

/// "4x8".
Result<std::pair<std::int32_t, std::int32_t>> parse_two_level(std::string_view option,
                                                              std::string_view text) {
  const char* const end = text.data() + text.size();
  std::int32_t nodes = 0;
  std::int32_t each = 0;
  const auto [at, nodes_wrong] = std::from_chars(text.data(), end, nodes);
  if (nodes_wrong == std::errc{} && at != end && *at == 'x') {
    const auto [rest, each_wrong] = std::from_chars(at + 1, end, each);
    const bool whole = each_wrong == std::errc{} && rest == end;
    if (whole && nodes > 0 && each > 0 && nodes <= kMostSwitchRanks / each)
      return std::pair(nodes, each);
  }
  return make_error(Code::kInvalidArgument,
                    "{} '{}': write NODESxRANKS, as in 4x8, of at most {} ranks together", option,
                    text, kMostSwitchRanks);
}

/// Of each rank, where each host has as many.
std::vector<std::int32_t> hosts_of(std::int32_t hosts, std::int32_t each) {
  std::vector<std::int32_t> host;
  for (std::int32_t rank = 0; rank < hosts * each; ++rank) host.push_back(rank / each);
  return host;
}

Machine switch_machine(std::string name, const sim::UniformSwitch::Shape& shape) {
  Machine machine;
  machine.name = std::move(name);
  machine.uniform = shape;
  machine.fabric = std::make_unique<sim::UniformSwitch>(shape);
  return machine;
}

Machine switch_machine(std::string name, const sim::TwoLevelSwitch::Shape& shape) {
  Machine machine;
  machine.name = std::move(name);
  machine.two_level = shape;
  machine.fabric = std::make_unique<sim::TwoLevelSwitch>(shape);
  machine.layout = ir::Layout::of_hosts(hosts_of(shape.nodes, shape.ranks_per_node));
  return machine;
}

/// Of a switch that adds for as many groups as there may be, and any number of operations.
std::optional<topo::Aggregation> aggregation_if(bool adds) {
  if (!adds) return std::nullopt;
  return topo::Aggregation{.trees = ir::kMostGroups, .outstanding = 0};
}

Machine uniform_machine(const MachineOptions& options) {
  return switch_machine(
      fmt::format("{} ranks on a switch{}, {:g} µs, {:g} GB/s", options.uniform,
                  options.in_network ? " that adds" : "", options.alpha_us, options.beta_gbs),
      sim::UniformSwitch::Shape{.ranks = options.uniform,
                                .bandwidth = options.beta_gbs,
                                .latency = options.alpha_us,
                                .aggregation = aggregation_if(options.in_network)});
}

Result<Machine> two_level_machine(const MachineOptions& options) {
  TUTTI_ASSIGN(const auto sizes, parse_two_level("--two-level", options.two_level));
  const auto [nodes, each] = sizes;
  return switch_machine(
      fmt::format("{} nodes of {} ranks, {:g} µs, {:g} GB/s{}; inside {:g} µs, {:g} GB/s{}", nodes,
                  each, options.alpha_us, options.beta_gbs,
                  options.in_network ? ", whose network adds" : "", options.inner_alpha_us,
                  options.inner_gbs, options.inner_in_network ? ", whose switches add" : ""),
      sim::TwoLevelSwitch::Shape{.nodes = nodes,
                                 .ranks_per_node = each,
                                 .inner_bandwidth = options.inner_gbs,
                                 .inner_latency = options.inner_alpha_us,
                                 .outer_bandwidth = options.beta_gbs,
                                 .outer_latency = options.alpha_us,
                                 .inner_aggregation = aggregation_if(options.inner_in_network),
                                 .outer_aggregation = aggregation_if(options.in_network)});
}

Machine calibrated_hosts(std::string name, lower::Placement placement,
                         const Calibration& calibration) {
  Machine machine;
  machine.name = std::move(name);
  machine.is_hosts = true;
  machine.layout = ir::Layout::of_hosts(placement.host);
  machine.fabric = hosts_fabric(placement, calibration);
  machine.on_host = std::move(placement);
  machine.calibration = calibration;
  return machine;
}

Result<Machine> hosts_machine(const MachineOptions& options) {
  TUTTI_ASSIGN(const auto sizes, parse_two_level("--hosts", options.hosts));
  TUTTI_ASSIGN(const Calibration calibration, load_calibration(options.calibration));
  const auto [hosts, each] = sizes;
  return calibrated_hosts(fmt::format("{} of {} ranks, calibrated on {}",
                                      hosts == 1 ? "1 host" : fmt::format("{} hosts", hosts), each,
                                      calibration.measured_on),
                          {hosts_of(hosts, each)}, calibration);
}

Result<Machine> uncalibrated_machine(const MachineOptions& options) {
  if (options.uniform != 0) return uniform_machine(options);
  if (!options.two_level.empty()) return two_level_machine(options);
  TUTTI_ASSIGN(topo::Noted noted, load_topology(options.topology));
  const ir::Layout layout = is_file(options.topology) ? ir::Layout{} : grid_of(options.topology);
  TUTTI_ASSIGN(Machine machine, machine_of(options.topology, std::move(noted.topology), layout));
  machine.assumptions = std::move(noted.assumptions);
  return machine;
}

/// The node or host on which each rank is.
lower::Placement placement_of(const Machine& machine) {
  lower::Placement placement;
  if (machine.two_level) {
    placement.host = hosts_of(machine.two_level->nodes, machine.two_level->ranks_per_node);
  } else if (machine.topology != nullptr) {
    for (const topo::NodeId node : machine.placement.ranks)
      placement.host.push_back(static_cast<std::int32_t>(machine.topology->node(node).host));
  } else {
    placement.host.assign(static_cast<std::size_t>(machine.ranks()), 0);
  }
  return placement;
}

}  // namespace

Adding adding_of(const Machine& machine) {
  if (machine.uniform) return {.between_hosts = machine.uniform->aggregation.has_value()};
  if (machine.two_level)
    return {.in_hosts = machine.two_level->inner_aggregation.has_value(),
            .between_hosts = machine.two_level->outer_aggregation.has_value()};
  Adding adding;
  if (machine.topology == nullptr) return adding;
  for (const topo::Node& node : machine.topology->nodes()) {
    if (std::ranges::find(node.attributes, topo::kAggregationKey, &topo::Attribute::key) ==
        node.attributes.end())
      continue;
    (node.host == topo::kNoHost ? adding.between_hosts : adding.in_hosts) = true;
  }
  return adding;
}

Result<Calibration> load_calibration(const std::string& path) {
  if (path.empty()) return Calibration{};
  TUTTI_ASSIGN(const std::string text, read_file(path, kMostCalibrationBytes));
  Result<Calibration> calibration = parse_calibration(text);
  if (calibration) return calibration;
  return make_error(Code::kWrongData, "the calibration '{}': {}", path, calibration.error().what);
}

Result<topo::Noted> load_topology(const std::string& text) {
  if (!is_file(text)) {
    Result<topo::Topology> synthetic = topo::synthetic_topology(text);
    if (synthetic) return topo::Noted{*std::move(synthetic), {}};
    Result<topo::Topology> preset = topo::machine_topology(text);
    if (preset) return topo::Noted{*std::move(preset), {}};
    return make_error(Code::kInvalidArgument,
                      "--topology '{}' is no file; as a synthetic machine: {}; as one of presets: "
                      "{}",
                      text, synthetic.error().what, preset.error().what);
  }
  tools::TopologySource source;
  source.from = text;
  TUTTI_ASSIGN(tools::NamedTopology named, tools::load_topology(source));
  return std::move(named.noted);
}

Result<Machine> machine_of(std::string name, topo::Topology topology, ir::Layout layout) {
  Machine machine;
  machine.name = std::move(name);
  machine.topology = std::make_unique<topo::Topology>(std::move(topology));
  machine.placement = topo::one_rank_each(*machine.topology);
  if (machine.placement.ranks.empty())
    return make_error(Code::kInvalidArgument, "'{}' has neither GPUs nor CPUs, so no ranks",
                      machine.name);
  TUTTI_ASSIGN(sim::TopologyFabric fabric,
               sim::TopologyFabric::create(*machine.topology, machine.placement));
  machine.fabric = std::make_unique<sim::TopologyFabric>(std::move(fabric));
  machine.layout = std::move(layout);
  if (machine.layout.empty()) {
    std::vector<std::int32_t> hosts;
    for (const topo::NodeId node : machine.placement.ranks)
      hosts.push_back(static_cast<std::int32_t>(machine.topology->node(node).host));
    machine.layout = ir::Layout::of_hosts(hosts);
  }
  return machine;
}

Result<Machine> slowed(const Machine& machine, std::span<const sim::SlowLink> slow_links) {
  if (machine.uniform) return switch_machine(machine.name, *machine.uniform);
  if (machine.two_level) return switch_machine(machine.name, *machine.two_level);
  if (machine.is_hosts)
    return calibrated_hosts(machine.name, machine.on_host, *machine.calibration);
  topo::Parts parts = machine.topology->parts();
  for (const sim::SlowLink& slow : slow_links) parts.links[slow.link].bandwidth /= slow.factor;
  TUTTI_ASSIGN(topo::Topology topology, topo::Topology::create(std::move(parts)));
  return machine_of(machine.name, std::move(topology), machine.layout);
}

std::int32_t ranks_of_this_machine() {
  const CpuShare cpus = CpuShare::of_this_thread();
  return std::max(2, static_cast<std::int32_t>(usable_cpus({&cpus, 1})));
}

Result<Machine> make_machine(const MachineOptions& options) {
  const int named = (options.topology.empty() ? 0 : 1) + (options.uniform == 0 ? 0 : 1) +
                    (options.two_level.empty() ? 0 : 1) + (options.hosts.empty() ? 0 : 1);
  if (named > 1)
    return make_error(Code::kInvalidArgument,
                      "give one machine: --topology, --uniform, --two-level or --hosts");
  const MachineOptions usual;
  const bool of_switches = options.alpha_us != usual.alpha_us ||
                           options.beta_gbs != usual.beta_gbs ||
                           options.inner_alpha_us != usual.inner_alpha_us ||
                           options.inner_gbs != usual.inner_gbs || options.in_network;
  if (named == 0 && of_switches)
    return make_error(Code::kInvalidArgument,
                      "--alpha, --beta-gbs, --in-network and the like are of switches: name one "
                      "with --uniform or "
                      "--two-level");
  if (named == 0) {
    MachineOptions here = options;
    here.hosts = fmt::format("1x{}", ranks_of_this_machine());
    TUTTI_ASSIGN(Machine machine, hosts_machine(here));
    machine.assumptions.push_back(
        "no machine was named (--topology, --hosts ...): one host with as many ranks as this one "
        "has "
        "processors, and at least 2");
    return machine;
  }
  if (!options.hosts.empty()) return hosts_machine(options);
  TUTTI_ASSIGN(Machine machine, uncalibrated_machine(options));
  if (options.calibration.empty()) return machine;
  TUTTI_ASSIGN(machine.calibration, load_calibration(options.calibration));
  machine.on_host = placement_of(machine);
  return machine;
}

}  // namespace tutti::simtool
