#include "src/topo/model/affinity.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "src/topo/model/cpu_mask.hpp"

namespace tutti::topo {
namespace {

std::string word(const std::vector<Attribute>& attributes, std::string_view key) {
  const auto found = std::ranges::find(attributes, key, &Attribute::key);
  return found == attributes.end() ? std::string() : found->value;
}

std::vector<NodeId> of_host(const Topology& topology, HostId host, NodeKind kind) {
  std::vector<NodeId> found;
  for (const NodeId id : topology.nodes_of(host))
    if (topology.node(id).kind == kind) found.push_back(id);
  return found;
}

/// Of the widest network link that leaves `nic`; `otherwise` where there is none.
double bandwidth_outwards(const Topology& topology, NodeId nic, double otherwise) {
  double widest = 0;
  for (const LinkId id : topology.links_from(nic))
    if (topology.link(id).kind == LinkKind::kNetwork)
      widest = std::max(widest, topology.link(id).bandwidth);
  return widest > 0 ? widest : otherwise;
}

Path joined(Path first, const Path& second, PathKind kind) {
  first.kind = kind;
  first.bandwidth = std::min(first.bandwidth, second.bandwidth);
  first.latency += second.latency;
  first.links.insert(first.links.end(), second.links.begin(), second.links.end());
  return first;
}

/// Where a NIC is plugged in: the first switch beyond the nodes of its host; kNoLeaf without one.
constexpr NodeId kNoLeaf = ~NodeId{0};
NodeId leaf_of(const Topology& topology, NodeId nic) {
  std::set<NodeId> seen = {nic};
  std::vector<NodeId> within = {nic};
  for (std::size_t i = 0; i < within.size(); ++i)
    for (const LinkId id : topology.links_from(within[i])) {
      const Link& link = topology.link(id);
      const Node& next = topology.node(link.to);
      if (link.kind != LinkKind::kNetwork || next.kind != NodeKind::kSwitch) continue;
      if (next.host == kNoHost) return link.to;
      if (seen.insert(link.to).second) within.push_back(link.to);
    }
  return kNoLeaf;
}

struct Nic {
  NodeId id;
  std::size_t position;  // among the NICs of its host
  NodeId leaf;
};

std::vector<Nic> all_nics(const Topology& topology) {
  std::vector<Nic> nics;
  std::vector<std::size_t> of_host(topology.hosts().size());
  for (NodeId id = 0; id < topology.nodes().size(); ++id)
    if (const Node& node = topology.node(id); node.kind == NodeKind::kNic)
      nics.push_back({id, of_host[node.host]++, leaf_of(topology, id)});
  return nics;
}

/// The leaf switches that join NICs of different positions, and of each host one at most.
std::set<NodeId> leaves_that_are_rails(const Topology& topology, const std::vector<Nic>& nics) {
  std::map<NodeId, std::set<std::size_t>> positions;
  std::map<NodeId, std::set<HostId>> hosts;
  std::set<NodeId> shared_in_a_host;
  for (const Nic& nic : nics) {
    positions[nic.leaf].insert(nic.position);
    if (!hosts[nic.leaf].insert(topology.node(nic.id).host).second)
      shared_in_a_host.insert(nic.leaf);
  }
  std::set<NodeId> chosen;
  for (const auto& [leaf, at] : positions)
    if (leaf != kNoLeaf && at.size() > 1 && !shared_in_a_host.contains(leaf)) chosen.insert(leaf);
  return chosen;
}

}  // namespace

std::vector<NodeId> nearest_nics(PathFinder& finder, NodeId node) {
  const Topology& topology = finder.topology();
  double widest = 0;
  PathKind nearest = PathKind::kDisconnected;
  std::vector<NodeId> best;
  for (const NodeId nic : of_host(topology, topology.node(node).host, NodeKind::kNic)) {
    const Path path = finder.find(node, nic);
    if (path.kind >= PathKind::kNetwork) continue;
    const double bandwidth =
        std::min(path.bandwidth, bandwidth_outwards(topology, nic, path.bandwidth));
    if (bandwidth < widest || (bandwidth == widest && path.kind > nearest)) continue;
    if (bandwidth > widest || path.kind < nearest) best.clear();
    widest = bandwidth;
    nearest = path.kind;
    best.push_back(nic);
  }
  return best;
}

std::vector<NodeId> shortest_to(PathFinder& finder, NodeId node, std::span<const NodeId> nics) {
  PathKind nearest = PathKind::kNetwork;
  std::vector<NodeId> best;
  for (const NodeId nic : nics) {
    const PathKind kind = finder.find(node, nic).kind;
    if (kind > nearest || kind >= PathKind::kNetwork) continue;
    if (kind < nearest) best.clear();
    nearest = kind;
    best.push_back(nic);
  }
  return best;
}

std::vector<NodeId> nearest_nics_of_process(PathFinder& finder, HostId host) {
  const Topology& topology = finder.topology();
  const auto allowed = CpuMask::from_list(word(topology.hosts()[host].attributes, "affinity"));
  if (!allowed) return {};
  std::optional<std::vector<NodeId>> found;
  for (const NodeId cpu : of_host(topology, host, NodeKind::kCpu)) {
    const auto own = CpuMask::from_mask(word(topology.node(cpu).attributes, "affinity"));
    if (!own || !own->intersects(*allowed)) continue;
    const std::vector<NodeId> nics = nearest_nics(finder, cpu);
    if (found && *found != nics) return {};
    found = nics;
  }
  return found.value_or(std::vector<NodeId>());
}

std::optional<NodeId> gpu_at(const Topology& topology, HostId host, std::string_view bus_id) {
  // Files may have hexadecimal digits in capitals.
  const auto lower = [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c; };
  for (const NodeId gpu : of_host(topology, host, NodeKind::kGpu)) {
    const auto known = word(topology.node(gpu).attributes, "busid");
    if (!bus_id.empty() && std::ranges::equal(known, bus_id, {}, lower, lower)) return gpu;
  }
  return std::nullopt;
}

std::string describe_place(PathKind kind, const Node& from) {
  const bool is_cpu = from.kind == NodeKind::kCpu;
  const auto said = [&](std::string_view words) {
    return fmt::format("{} {} ({})", words, from.name, name_of(kind));
  };
  switch (kind) {
    case PathKind::kPci:
      return said(is_cpu ? "on" : "on the PCI switch of");
    case PathKind::kPciSwitches:
      return said(is_cpu ? "on" : "several PCI switches from");
    case PathKind::kC2c:
    case PathKind::kPciC2c:
      return said("over C2C on the CPU of");
    case PathKind::kHostBridge:
      return said(is_cpu ? "on" : "on the CPU of");
    case PathKind::kSystem:
      return said("on another CPU than");
    default:
      return said("reached from");
  }
}

std::optional<Path> relayed_to_nic(PathFinder& finder, NodeId gpu, NodeId nic) {
  const Topology& topology = finder.topology();
  const Path direct = finder.find(gpu, nic);
  std::optional<Path> best;
  PathKind nearest = PathKind::kPciC2c;
  for (const NodeId peer : of_host(topology, topology.node(gpu).host, NodeKind::kGpu)) {
    if (peer == gpu) continue;
    const Path to_peer = finder.find(gpu, peer);
    const Path onwards = finder.find(peer, nic);
    if (to_peer.kind > PathKind::kNvlink || onwards.kind > nearest) continue;
    Path path = joined(to_peer, onwards, PathKind::kRelay);
    if (best && onwards.kind == nearest && path.bandwidth <= best->bandwidth) continue;
    nearest = onwards.kind;
    best = std::move(path);
  }
  if (!best) return std::nullopt;
  if (best->bandwidth > direct.bandwidth || direct.kind > PathKind::kRelay) return best;
  return std::nullopt;
}

std::vector<Rail> rails(const Topology& topology) {
  const std::vector<Nic> nics = all_nics(topology);
  const std::set<NodeId> chosen = leaves_that_are_rails(topology, nics);
  using Key = std::pair<NodeId, std::size_t>;  // by position: (0, position); by leaf: (leaf + 1, 0)
  std::map<Key, Rail> by_key;
  for (const Nic& nic : nics)
    by_key[chosen.contains(nic.leaf) ? Key{nic.leaf + 1, 0} : Key{0, nic.position}].push_back(
        nic.id);
  std::vector<Rail> all;
  for (auto& [key, rail] : by_key) all.push_back(std::move(rail));
  return all;
}

}  // namespace tutti::topo
