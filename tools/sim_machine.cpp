#include "tools/sim_machine.hpp"

#include <charconv>
#include <filesystem>
#include <utility>

#include "src/base/result.hpp"
#include "src/sim/topology_fabric.hpp"
#include "src/topo/machine.hpp"
#include "src/topo/synthetic.hpp"
#include "tools/topo_source.hpp"

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
Result<std::pair<std::int32_t, std::int32_t>> parse_two_level(std::string_view text) {
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
                    "--two-level '{}': write NODESxRANKS, as in 4x8, of at most {} ranks together",
                    text, kMostSwitchRanks);
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
  std::vector<std::int32_t> hosts;
  for (std::int32_t rank = 0; rank < machine.ranks(); ++rank)
    hosts.push_back(rank / shape.ranks_per_node);
  machine.layout = ir::Layout::of_hosts(hosts);
  return machine;
}

Machine uniform_machine(const MachineOptions& options) {
  return switch_machine(fmt::format("{} ranks on a switch, {:g} µs, {:g} GB/s", options.uniform,
                                    options.alpha_us, options.beta_gbs),
                        sim::UniformSwitch::Shape{.ranks = options.uniform,
                                                  .bandwidth = options.beta_gbs,
                                                  .latency = options.alpha_us});
}

Result<Machine> two_level_machine(const MachineOptions& options) {
  TUTTI_ASSIGN(const auto sizes, parse_two_level(options.two_level));
  const auto [nodes, each] = sizes;
  return switch_machine(
      fmt::format("{} nodes of {} ranks, {:g} µs, {:g} GB/s; inside {:g} µs, {:g} GB/s", nodes,
                  each, options.alpha_us, options.beta_gbs, options.inner_alpha_us,
                  options.inner_gbs),
      sim::TwoLevelSwitch::Shape{.nodes = nodes,
                                 .ranks_per_node = each,
                                 .inner_bandwidth = options.inner_gbs,
                                 .inner_latency = options.inner_alpha_us,
                                 .outer_bandwidth = options.beta_gbs,
                                 .outer_latency = options.alpha_us});
}

}  // namespace

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
  topo::Parts parts = machine.topology->parts();
  for (const sim::SlowLink& slow : slow_links) parts.links[slow.link].bandwidth /= slow.factor;
  TUTTI_ASSIGN(topo::Topology topology, topo::Topology::create(std::move(parts)));
  return machine_of(machine.name, std::move(topology), machine.layout);
}

Result<Machine> make_machine(const MachineOptions& options) {
  const int named = (options.topology.empty() ? 0 : 1) + (options.uniform == 0 ? 0 : 1) +
                    (options.two_level.empty() ? 0 : 1);
  if (named != 1)
    return make_error(Code::kInvalidArgument,
                      "give one machine: --topology, --uniform or --two-level");
  if (options.uniform != 0) return uniform_machine(options);
  if (!options.two_level.empty()) return two_level_machine(options);
  TUTTI_ASSIGN(topo::Noted noted, load_topology(options.topology));
  const ir::Layout layout = is_file(options.topology) ? ir::Layout{} : grid_of(options.topology);
  TUTTI_ASSIGN(Machine machine, machine_of(options.topology, std::move(noted.topology), layout));
  machine.assumptions = std::move(noted.assumptions);
  return machine;
}

}  // namespace tutti::simtool
