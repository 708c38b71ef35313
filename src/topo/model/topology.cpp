#include "src/topo/model/topology.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "src/base/hash.hpp"
#include "src/base/result.hpp"
#include "src/topo/model/words.hpp"

namespace tutti::topo {
namespace {

constexpr std::array<std::string_view, kNodeKinds> kNodeNames = {"gpu",      "cpu", "pci",
                                                                 "nvswitch", "nic", "switch"};
constexpr std::array<std::string_view, kLinkKinds> kLinkNames = {"nvlink", "c2c", "pci", "system",
                                                                 "network"};

bool may_lack_a_host(NodeKind kind) {
  return kind == NodeKind::kSwitch || kind == NodeKind::kNvswitch;
}

// ---- checks. Each error begins with the part that it is about.

/// "node 3 (`a/gpu0`)"; the host's name only where there is such a host.
std::string name_of_node(const Parts& parts, NodeId id) {
  const Node& node = parts.nodes[id];
  const std::string host =
      node.host < parts.hosts.size() ? parts.hosts[node.host].name + "/" : std::string();
  return fmt::format("node {} ({})", id, shown(host + node.name));
}

std::string name_of_host(const Parts& parts, HostId id) {
  return fmt::format("host {} ({})", id, shown(parts.hosts[id].name));
}

std::string name_of_link(const Parts& parts, LinkId id) {
  const Link& link = parts.links[id];
  return fmt::format("link {} from {} to {}", id, name_of_node(parts, link.from),
                     name_of_node(parts, link.to));
}

Status check_count(std::size_t count, std::size_t most, std::string_view what) {
  if (count <= most) return ok_status();
  return make_error(Code::kInvalidArgument, "{} {} are too many: at most {} are accepted", count,
                    what, most);
}

Error bad_name(const std::string& whose) {
  return make_error(Code::kInvalidArgument,
                    "{}: the name must be 1 to 256 bytes of UTF-8 without control characters",
                    whose);
}

Status check_attributes(const std::vector<Attribute>& attributes, const std::string& whose) {
  if (attributes.size() > Topology::kMostAttributes)
    return make_error(Code::kInvalidArgument,
                      "{}: {} attributes are too many: at most {} are accepted", whose,
                      attributes.size(), Topology::kMostAttributes);
  for (std::size_t i = 0; i < attributes.size(); ++i) {
    const auto& [key, value] = attributes[i];
    if (key.empty())
      return make_error(Code::kInvalidArgument, "{}: attribute {} has an empty key", whose, i);
    if (!is_utf8(key) || !is_utf8(value))
      return make_error(Code::kInvalidArgument, "{}: attribute {} is not valid UTF-8", whose,
                        shown(key));
    if (i > 0 && attributes[i - 1].key >= key)
      return make_error(Code::kInvalidArgument,
                        "{}: attribute {} stands after {}: keys are unique and ascending", whose,
                        shown(key), shown(attributes[i - 1].key));
  }
  return ok_status();
}

Status check_hosts(const Parts& parts) {
  for (HostId id = 0; id < parts.hosts.size(); ++id) {
    const Host& host = parts.hosts[id];
    if (!is_name(host.name)) return bad_name(name_of_host(parts, id));
    if (!host.attributes.empty())
      TUTTI_TRY(check_attributes(host.attributes, name_of_host(parts, id)));
  }
  return ok_status();
}

Status check_node(const Parts& parts, NodeId id) {
  const Node& node = parts.nodes[id];
  const auto wrong = [&](const std::string& why) {
    return make_error(Code::kInvalidArgument, "{}: {}", name_of_node(parts, id), why);
  };
  if (static_cast<int>(node.kind) >= kNodeKinds)
    return wrong(fmt::format("its kind {} does not exist", static_cast<int>(node.kind)));
  if (!is_name(node.name)) return bad_name(name_of_node(parts, id));
  if (node.host == kNoHost && !may_lack_a_host(node.kind))
    return wrong(fmt::format("a {} must be part of a host", name_of(node.kind)));
  if (node.host != kNoHost && node.host >= parts.hosts.size())
    return wrong(fmt::format("it is part of host {}, but there are {} hosts", node.host,
                             parts.hosts.size()));
  if (node.attributes.empty()) return ok_status();
  return check_attributes(node.attributes, name_of_node(parts, id));
}

Status check_link(const Parts& parts, LinkId id) {
  const Link& link = parts.links[id];
  for (const NodeId end : {link.from, link.to})
    if (end >= parts.nodes.size())
      return make_error(Code::kInvalidArgument,
                        "link {}: it ends at node {}, but there are {} nodes", id, end,
                        parts.nodes.size());
  const auto wrong = [&](const std::string& why) {
    return make_error(Code::kInvalidArgument, "{}: {}", name_of_link(parts, id), why);
  };
  if (link.from == link.to) return wrong("a link joins two different nodes");
  if (static_cast<int>(link.kind) >= kLinkKinds)
    return wrong(fmt::format("its kind {} does not exist", static_cast<int>(link.kind)));
  if (!(link.bandwidth >= kLeastBandwidth && link.bandwidth <= kMostBandwidth))
    return wrong(fmt::format("a bandwidth of {} GB/s must be from {:g} to {:g}", link.bandwidth,
                             kLeastBandwidth, kMostBandwidth));
  if (!(link.latency >= 0 && link.latency <= kMostLatency))
    return wrong(fmt::format("a latency of {} microseconds must be from 0 to {:g}", link.latency,
                             kMostLatency));
  return ok_status();
}

/// Sorts the positions of `things` by `key`, so that things of one key stand side by side, the
/// first one first.
template <class Id, class Things, class Key>
std::vector<Id> sorted_by(const Things& things, Key key) {
  std::vector<Id> order(things.size());
  std::iota(order.begin(), order.end(), Id{0});
  std::ranges::sort(order, {}, [&](Id id) { return std::pair(key(things[id]), id); });
  return order;
}

Status check_unique(const Parts& parts) {
  const auto host_key = [](const Host& host) { return std::string_view(host.name); };
  const auto hosts = sorted_by<HostId>(parts.hosts, host_key);
  for (std::size_t i = 1; i < hosts.size(); ++i)
    if (host_key(parts.hosts[hosts[i - 1]]) == host_key(parts.hosts[hosts[i]]))
      return make_error(Code::kInvalidArgument, "{}: host {} has the same name",
                        name_of_host(parts, hosts[i]), hosts[i - 1]);
  const auto node_key = [](const Node& node) {
    return std::pair<HostId, std::string_view>(node.host, node.name);
  };
  const auto nodes = sorted_by<NodeId>(parts.nodes, node_key);
  for (std::size_t i = 1; i < nodes.size(); ++i)
    if (node_key(parts.nodes[nodes[i - 1]]) == node_key(parts.nodes[nodes[i]]))
      return make_error(Code::kInvalidArgument, "{}: node {} of the same host has the same name",
                        name_of_node(parts, nodes[i]), nodes[i - 1]);
  return ok_status();
}

Status check_parts(const Parts& parts) {
  TUTTI_TRY(check_count(parts.hosts.size(), Topology::kMostNodes, "hosts"));
  TUTTI_TRY(check_count(parts.nodes.size(), Topology::kMostNodes, "nodes"));
  TUTTI_TRY(check_count(parts.links.size(), Topology::kMostLinks, "links"));
  TUTTI_TRY(check_hosts(parts));
  for (NodeId id = 0; id < parts.nodes.size(); ++id) TUTTI_TRY(check_node(parts, id));
  for (LinkId id = 0; id < parts.links.size(); ++id) TUTTI_TRY(check_link(parts, id));
  return check_unique(parts);
}

// ---- the hash

/// Of a chain of 64-bit words.
class Hasher {
 public:
  void word(std::uint64_t value) { state_ = mix(state_, value); }
  void number(double value) { word(std::bit_cast<std::uint64_t>(value)); }

  /// Length, then eight bytes to a word, lowest first.
  void text(std::string_view text) {
    word(text.size());
    for (std::size_t at = 0; at < text.size(); at += 8) {
      std::uint64_t packed = 0;
      for (std::size_t i = at; i < std::min(at + 8, text.size()); ++i)
        packed |= std::uint64_t{static_cast<unsigned char>(text[i])} << (8 * (i - at));
      word(packed);
    }
  }
  void attributes(const std::vector<Attribute>& attributes) {
    word(attributes.size());
    for (const auto& [key, value] : attributes) {
      text(key);
      text(value);
    }
  }

  [[nodiscard]] std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0;
};

std::uint64_t hash_of(const Parts& parts) {
  Hasher hasher;
  hasher.word(parts.hosts.size());
  for (const Host& host : parts.hosts) {
    hasher.text(host.name);
    hasher.attributes(host.attributes);
  }
  hasher.word(parts.nodes.size());
  for (const Node& node : parts.nodes) {
    hasher.word(static_cast<std::uint64_t>(node.kind));
    hasher.word(node.host);
    hasher.text(node.name);
    hasher.attributes(node.attributes);
  }
  hasher.word(parts.links.size());
  for (const Link& link : parts.links) {
    hasher.word(link.from);
    hasher.word(link.to);
    hasher.word(static_cast<std::uint64_t>(link.kind));
    hasher.number(link.bandwidth);
    hasher.number(link.latency);
  }
  return hasher.value();
}

}  // namespace

Result<Topology> Topology::create(Parts parts) {
  TUTTI_TRY(check_parts(parts));
  return Topology(std::move(parts));
}

/// Keeps the order within each group.
template <class Things, class GroupOf>
Topology::Grouped Topology::group(const Things& things, std::size_t groups, GroupOf group_of) {
  Grouped grouped;
  grouped.first.assign(groups + 1, 0);
  for (const auto& thing : things) ++grouped.first[group_of(thing) + 1];
  std::partial_sum(grouped.first.begin(), grouped.first.end(), grouped.first.begin());
  grouped.members.resize(things.size());
  std::vector<std::uint32_t> next = grouped.first;
  for (std::uint32_t id = 0; id < things.size(); ++id)
    grouped.members[next[group_of(things[id])]++] = id;
  return grouped;
}

Topology::Topology(Parts parts) : parts_(std::move(parts)) {
  for (Link& link : parts_.links) link.latency += 0.0;  // -0, which equals 0, would hash apart
  const std::size_t hosts = parts_.hosts.size();
  links_by_source_ =
      group(parts_.links, parts_.nodes.size(), [](const Link& link) { return link.from; });
  nodes_by_host_ = group(parts_.nodes, hosts + 1, [&](const Node& node) {
    return node.host == kNoHost ? hosts : node.host;
  });
  hash_ = hash_of(parts_);
}

std::span<const LinkId> Topology::links_from(NodeId node) const {
  return links_by_source_.of(node);
}

std::span<const NodeId> Topology::nodes_of(HostId host) const {
  return nodes_by_host_.of(host == kNoHost ? parts_.hosts.size() : host);
}

Placement one_rank_each(const Topology& topology) {
  for (const NodeKind wanted : {NodeKind::kGpu, NodeKind::kCpu}) {
    Placement placement;
    for (NodeId id = 0; id < topology.nodes().size(); ++id)
      if (topology.node(id).kind == wanted) placement.ranks.push_back(id);
    if (!placement.ranks.empty()) return placement;
  }
  return {};
}

Status check(const Placement& placement, const Topology& topology) {
  for (std::size_t rank = 0; rank < placement.ranks.size(); ++rank) {
    const NodeId node = placement.ranks[rank];
    if (node >= topology.nodes().size())
      return make_error(Code::kInvalidArgument,
                        "rank {} is placed on node {}, but there are {} nodes", rank, node,
                        topology.nodes().size());
    const NodeKind kind = topology.node(node).kind;
    if (kind != NodeKind::kGpu && kind != NodeKind::kCpu)
      return make_error(Code::kInvalidArgument,
                        "rank {} is placed on node {} ({}), a {}: place it on a gpu or cpu", rank,
                        node, shown(full_name(topology, node)), name_of(kind));
  }
  return ok_status();
}

std::string full_name(const Topology& topology, NodeId node) {
  const Node& named = topology.node(node);
  return named.host == kNoHost ? named.name : topology.hosts()[named.host].name + "/" + named.name;
}

std::string_view name_of(NodeKind kind) { return kNodeNames[static_cast<std::size_t>(kind)]; }
std::string_view name_of(LinkKind kind) { return kLinkNames[static_cast<std::size_t>(kind)]; }

}  // namespace tutti::topo
