#include "tools/topo/arrangement.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string>
#include <tuple>

#include <fmt/format.h>

#include "src/topo/model/aggregation.hpp"
#include "src/topo/model/bandwidths.hpp"
#include "src/topo/model/cpu_mask.hpp"

namespace tutti::tools {

using topo::HostId;
using topo::LinkKind;
using topo::Node;
using topo::NodeId;
using topo::NodeKind;

namespace {

/// To six digits, so that equal links whose parts were added up in another order stay equal.
double rounded(double bandwidth) {
  return std::strtod(fmt::format("{:.6g}", bandwidth).c_str(), nullptr);
}

}  // namespace

Arrangement::Arrangement(const topo::Topology& topology, const topo::Topology& whole)
    : topology_(&topology),
      wires_at_(topology.nodes().size()),
      roots_(topology.hosts().size()),
      children_(topology.nodes().size()),
      parent_(topology.nodes().size(), kNone),
      depth_(topology.nodes().size(), -1) {
  gather_wires(whole);
  for (HostId host = 0; host < topology.hosts().size(); ++host) grow(host);
}

void Arrangement::gather_wires(const topo::Topology& whole) {
  struct Way {
    std::tuple<NodeId, NodeId, LinkKind> ends;
    std::size_t sum;  // of which it is a part: one for each direction, now and when whole
    double bandwidth;
  };
  std::vector<Way> ways;
  const auto gather = [&](const topo::Topology& topology, std::size_t first_sum) {
    for (const topo::Link& link : topology.links())
      ways.push_back({{std::min(link.from, link.to), std::max(link.from, link.to), link.kind},
                      first_sum + (link.from > link.to ? 1 : 0),
                      link.bandwidth});
  };
  gather(*topology_, 0);
  gather(whole, 2);
  std::ranges::sort(ways, {},
                    [](const Way& way) { return std::tuple(way.ends, way.sum, way.bandwidth); });
  for (std::size_t i = 0; i < ways.size();) {
    std::array<double, 4> sums{};
    const auto ends = ways[i].ends;
    for (; i < ways.size() && ways[i].ends == ends; ++i) sums[ways[i].sum] += ways[i].bandwidth;
    const auto& [a, b, kind] = ends;
    wires_at_[a].push_back(static_cast<std::uint32_t>(wires_.size()));
    wires_at_[b].push_back(static_cast<std::uint32_t>(wires_.size()));
    wires_.push_back(
        {a, b, kind, rounded(std::max(sums[0], sums[1])), rounded(std::max(sums[2], sums[3]))});
  }
}

/// Hangs what `may_hang(wire, node)` from the nodes above, breadth first.
void Arrangement::hang(std::vector<NodeId> above, auto may_hang) {
  for (std::size_t next = 0; next < above.size(); ++next) {
    const NodeId node = above[next];
    if (depth_[node] < 0 || depth_[node] + 1 >= kMostDepth) continue;
    for (const std::uint32_t at : wires_at_[node]) {
      const NodeId other = wires_[at].other(node);
      if (depth_[other] >= 0 || topology_->node(other).host != topology_->node(node).host) continue;
      if (!may_hang(wires_[at], other)) continue;
      depth_[other] = depth_[node] + 1;
      parent_[other] = node;
      children_[node].push_back(other);
      above.push_back(other);
    }
  }
}

void Arrangement::grow(HostId host) {
  const auto take_root = [&](NodeId node) {
    depth_[node] = 0;
    roots_[host].push_back(node);
  };
  const auto nodes = topology_->nodes_of(host);
  for (const NodeId node : nodes)
    if (is_memory(node)) take_root(node);
  hang(roots_[host], [&](const Wire& wire, NodeId node) {
    return wire.kind == LinkKind::kSystem && topology_->node(node).kind == NodeKind::kCpu;
  });
  for (const NodeId node : nodes)
    if (topology_->node(node).kind == NodeKind::kCpu && depth_[node] < 0) take_root(node);
  hang(roots_[host], [](const Wire& wire, NodeId) { return wire.kind == LinkKind::kPci; });
  hang({nodes.begin(), nodes.end()}, [&](const Wire& wire, NodeId node) {
    return wire.kind == LinkKind::kC2c && topology_->node(node).kind == NodeKind::kGpu;
  });
  for (const NodeId node : nodes) {
    if (depth_[node] >= 0) continue;
    take_root(node);
    hang({node}, [](const Wire& wire, NodeId) { return wire.kind == LinkKind::kPci; });
  }
}

NodeId Arrangement::root_of(NodeId node) const {
  while (parent_[node] != kNone) node = parent_[node];
  return node;
}

bool Arrangement::is_outside(NodeId node) const {
  return topology_->node(node).kind == NodeKind::kSwitch && wires_at_[node].size() == 1;
}

bool Arrangement::is_memory(NodeId node) const {
  return topology_->node(node).kind == NodeKind::kPci &&
         std::ranges::any_of(wires_at_[node], [&](std::uint32_t wire) {
           return wires_[wire].kind == LinkKind::kSystem;
         });
}

std::string_view attribute(const Node& node, std::string_view key) {
  const auto at = std::ranges::find(node.attributes, key, &topo::Attribute::key);
  return at == node.attributes.end() ? std::string_view() : std::string_view(at->value);
}

std::string counted(std::size_t count, NodeKind kind) {
  static constexpr std::string_view kNames[] = {"GPU",      "CPU", "PCI switch",
                                                "NVSwitch", "NIC", "switch"};
  const std::string_view name = kNames[static_cast<int>(kind)];
  return fmt::format("{} {}{}", count, name, count == 1 ? "" : name.ends_with('h') ? "es" : "s");
}

std::string count_of_nodes(const Arrangement& arrangement, std::span<const NodeId> nodes) {
  std::array<std::size_t, topo::kNodeKinds> counts{};
  for (const NodeId node : nodes)
    if (!arrangement.is_outside(node) && !arrangement.is_memory(node))
      ++counts[static_cast<std::size_t>(arrangement.topology().node(node).kind)];
  std::string text;
  for (int kind = 0; kind < topo::kNodeKinds; ++kind)
    if (counts[kind] > 0)
      text += (text.empty() ? "" : ", ") + counted(counts[kind], static_cast<NodeKind>(kind));
  return text.empty() ? "nothing" : text;
}

std::string_view title_of(LinkKind kind, bool of_amd) {
  static constexpr std::string_view kTitles[] = {"NVLink", "C2C", "PCI", "system", "network"};
  return of_amd && kind == LinkKind::kNvlink ? "xGMI" : kTitles[static_cast<int>(kind)];
}

std::string cpus_of(const Node& cpu) {
  const std::string_view words = attribute(cpu, "affinity");
  if (words.empty()) return "";
  std::string mask = "0x";
  for (const char c : words) mask += c == ',' ? ",0x" : std::string(1, c);
  const auto cpus = topo::CpuMask::from_hwloc(mask);
  return cpus ? cpus->list() : "";
}

bool is_of_amd(const Node& gpu) { return !attribute(gpu, "gcn").empty(); }

std::string processor_of(const Node& gpu) {
  if (const std::string_view gcn = attribute(gpu, "gcn"); !gcn.empty()) return std::string(gcn);
  const std::string_view sm = attribute(gpu, "sm");
  return sm.empty() ? "" : fmt::format("sm {}", sm);
}

std::string details_of(const Arrangement& arrangement, NodeId id) {
  const Node& node = arrangement.topology().node(id);
  std::vector<std::string> parts;
  const auto add = [&](std::string_view before, std::string_view value) {
    if (!value.empty()) parts.push_back(fmt::format("{}{}", before, value));
  };
  switch (node.kind) {
    case NodeKind::kCpu:
      add("NUMA ", attribute(node, "numaid"));
      add("CPUs ", cpus_of(node));
      add("", attribute(node, "model"));
      break;
    case NodeKind::kGpu:
      add("", attribute(node, "model"));
      add("", processor_of(node));
      add("", attribute(node, "busid"));
      break;
    case NodeKind::kPci:
      add("", arrangement.is_memory(id) ? "of all CPUs" : "PCI switch");
      break;
    case NodeKind::kNvswitch:
      add("", "NVSwitch");
      add("adds: ", attribute(node, topo::kAggregationKey));
      break;
    case NodeKind::kNic:
      add("", attribute(node, "netdev"));
      add("", attribute(node, "busid"));
      break;
    case NodeKind::kSwitch:
      add("", "switch");
      add("adds: ", attribute(node, topo::kAggregationKey));
      break;
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

double told_network_bandwidth(const Arrangement& arrangement, NodeId nic) {
  const bool linked = std::ranges::any_of(arrangement.wires_at(nic), [&](std::uint32_t wire) {
    return arrangement.wires()[wire].kind == LinkKind::kNetwork;
  });
  const std::string_view speed = attribute(arrangement.topology().node(nic), "speed");
  double megabits = 0;
  const auto [end, error] = std::from_chars(speed.data(), speed.data() + speed.size(), megabits);
  if (linked || error != std::errc{} || end != speed.data() + speed.size() || megabits <= 0)
    return 0;
  return topo::network_bandwidth(megabits);
}

std::string gigabytes(double bandwidth) {
  const bool is_large = bandwidth >= 1e4 && bandwidth < 1e15;
  return is_large ? fmt::format("{:.0f}", bandwidth) : fmt::format("{:.4g}", bandwidth);
}

bool is_unlimited(LinkKind kind, double bandwidth) {
  return kind == LinkKind::kPci && bandwidth == topo::kLocalBandwidth;
}

std::string speed(LinkKind kind, double bandwidth) {
  return is_unlimited(kind, bandwidth) ? "no limit" : gigabytes(bandwidth) + " GB/s";
}

std::string speed(const Wire& wire) {
  if (!wire.is_slowed()) return speed(wire.kind, wire.bandwidth);
  if (wire.bandwidth == 0) return fmt::format("cut ({})", speed(wire.kind, wire.whole));
  return fmt::format("{} (slowed to {:.3g} %)", speed(wire.kind, wire.bandwidth),
                     100 * wire.bandwidth / wire.whole);
}

}  // namespace tutti::tools
