// The tree of `tutti topo`.
#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "tools/topo/text.hpp"

namespace tutti::tools {
namespace {

using topo::HostId;
using topo::LinkKind;
using topo::NodeId;
using topo::NodeKind;

/// Hosts, or groups of equal switches, that are shown one by one.
constexpr std::size_t kMostShown = 64;
/// Ends of links that are named one by one.
constexpr std::size_t kMostNamed = 4;

struct Line {
  std::string name;  ///< with the lines of the tree before it
  std::string link;  ///< to the node above
  std::string rest;
};

/// In characters, each of which is as wide as any other.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, width_of(text)), ' ');
}

std::string aligned(const std::vector<Line>& lines) {
  std::size_t name = 0, link = 0;
  for (const Line& line : lines) {
    name = std::max(name, width_of(line.name));
    link = std::max(link, width_of(line.link));
  }
  std::string text;
  for (const Line& line : lines) {
    std::string row = padded(line.name, name + 2) + padded(line.link, link + 2) + line.rest;
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  return text;
}

/// A node's name as seen from another: with its host where that is a different one.
std::string name_from(const topo::Topology& topology, NodeId node, HostId host) {
  const topo::Node& at = topology.node(node);
  return at.host == host ? at.name : topo::full_name(topology, node);
}

/// "gpu1 gpu2", or "16 NICs" where they are many.
std::string ends_text(const Arrangement& arrangement, HostId host, const std::vector<NodeId>& ends,
                      Ends how) {
  const bool stay = std::ranges::all_of(
      ends, [&](NodeId end) { return arrangement.topology().node(end).host == host; });
  if (ends.size() > kMostNamed || (how == Ends::kCounted && !stay))
    return count_of_nodes(arrangement, ends);
  std::string text;
  for (const NodeId end : ends)
    text += (text.empty() ? "" : " ") + name_from(arrangement.topology(), end, host);
  return text;
}

/// The links of a node that are no part of the tree: "NVLink 240 GB/s to nvswitch".
std::string links_text(const Arrangement& arrangement, NodeId node, Ends how = Ends::kNamed) {
  std::map<std::tuple<LinkKind, double, std::string>, std::vector<NodeId>> by_speed;
  for (const std::uint32_t at : arrangement.wires_at(node)) {
    const Wire& wire = arrangement.wires()[at];
    if (!arrangement.in_tree(wire))
      by_speed[{wire.kind, -wire.bandwidth, speed(wire)}].push_back(wire.other(node));
  }
  const bool of_amd = is_of_amd(arrangement.topology().node(node));
  std::string text;
  for (const auto& [kind_and_speed, ends] : by_speed) {
    const auto& [kind, minus_bandwidth, speed] = kind_and_speed;
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", title_of(kind, of_amd), speed);
    if (ends.size() > 1 || !arrangement.is_outside(ends[0]))
      text += " to " + ends_text(arrangement, arrangement.topology().node(node).host, ends, how);
  }
  if (arrangement.topology().node(node).kind == NodeKind::kNic)
    if (const double told = told_network_bandwidth(arrangement, node); told > 0)
      text +=
          fmt::format("{}network {}", text.empty() ? "" : "; ", speed(LinkKind::kNetwork, told));
  return text;
}

std::string link_above(const Arrangement& arrangement, NodeId node) {
  const NodeId parent = arrangement.parent(node);
  if (parent == Arrangement::kNone) return "";
  const bool of_amd = is_of_amd(arrangement.topology().node(node));
  std::string text;
  for (const std::uint32_t at : arrangement.wires_at(node)) {
    const Wire& wire = arrangement.wires()[at];
    if (wire.other(node) != parent) continue;
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", title_of(wire.kind, of_amd), speed(wire));
  }
  return text;
}

/// What stands before a line of a tree and before those below it.
struct Indent {
  std::string own, below;
};

/// `node` and what hangs from it, at most Arrangement::kMostDepth deep.
void add_lines(const Arrangement& arrangement, NodeId node, const Indent& indent, Ends how,
               std::vector<Line>& lines) {
  const std::string details = details_of(arrangement, node);
  const std::string links = links_text(arrangement, node, how);
  lines.push_back({indent.own + arrangement.topology().node(node).name,
                   link_above(arrangement, node),
                   details + (details.empty() || links.empty() ? "" : "; ") + links});
  const auto children = arrangement.children(node);
  for (std::size_t i = 0; i < children.size(); ++i) {
    const bool last = i + 1 == children.size();
    add_lines(arrangement, children[i],
              {indent.below + (last ? "└─ " : "├─ "), indent.below + (last ? "   " : "│  ")}, how,
              lines);
  }
}

std::string host_title(const topo::Topology& topology, HostId host) {
  std::string text = topology.hosts()[host].name;
  for (const auto& [key, value] : topology.hosts()[host].attributes)
    if (key == "product" || key == "cpu_limit" || key == "container")
      text += fmt::format("   {} {}", key, value);
  return text;
}

std::string hosts_text(const Arrangement& arrangement) {
  const topo::Topology& topology = arrangement.topology();
  std::map<std::string, std::vector<HostId>> alike;
  std::vector<const std::pair<const std::string, std::vector<HostId>>*> in_order;
  for (HostId host = 0; host < topology.hosts().size(); ++host) {
    const auto at = alike.try_emplace(tree_of(arrangement, host)).first;
    if (at->second.empty()) in_order.push_back(&*at);
    at->second.push_back(host);
  }
  std::string text;
  for (std::size_t i = 0; i < in_order.size() && i < kMostShown; ++i) {
    const auto& [tree, hosts] = *in_order[i];
    text += fmt::format("\n{}\n{}", host_title(topology, hosts[0]), tree);
    if (hosts.size() == 1) continue;
    const std::string& last = topology.hosts()[hosts.back()].name;
    text += hosts.size() == 2
                ? fmt::format("{}: the same\n", last)
                : fmt::format("{} .. {}: {} more hosts, the same\n",
                              topology.hosts()[hosts[1]].name, last, hosts.size() - 1);
  }
  if (in_order.size() > kMostShown)
    text += fmt::format("\n{} more kinds of hosts are not shown; --json shows all\n",
                        in_order.size() - kMostShown);
  return text;
}

/// The switches between hosts; neighbours that are alike stand together.
std::string network_text(const Arrangement& arrangement) {
  const topo::Topology& topology = arrangement.topology();
  std::vector<Line> lines;
  std::string last_name;
  std::size_t alike = 0, left_out = 0;
  const auto close = [&] {
    if (alike > 1) lines.back().name += fmt::format(" .. {} ({})", last_name, alike);
  };
  for (const NodeId node : topology.nodes_of(topo::kNoHost)) {
    if (arrangement.is_outside(node)) continue;
    Line line{topology.node(node).name, details_of(arrangement, node),
              links_text(arrangement, node)};
    if (!lines.empty() && lines.back().link == line.link && lines.back().rest == line.rest) {
      last_name = line.name;
      ++alike;
      continue;
    }
    close();
    alike = 1;
    if (lines.size() < kMostShown)
      lines.push_back(std::move(line));
    else
      ++left_out;
  }
  close();
  if (lines.empty()) return "";
  return "\nnetwork\n" + aligned(lines) +
         (left_out == 0 ? "" : fmt::format("{} more are not shown; --json shows all\n", left_out));
}

}  // namespace

std::string tree_of(const Arrangement& arrangement, HostId host, Ends ends) {
  std::vector<Line> lines;
  std::vector<NodeId> roots;
  for (const NodeId root : arrangement.roots(host))
    if (!arrangement.is_outside(root)) roots.push_back(root);
  for (std::size_t i = 0; i < roots.size(); ++i) {
    const bool last = i + 1 == roots.size();
    add_lines(arrangement, roots[i], {last ? "└─ " : "├─ ", last ? "   " : "│  "}, ends, lines);
  }
  return aligned(lines);
}

std::string tree(const Arrangement& arrangement, const std::vector<std::string>& assumptions,
                 const std::vector<Measured>& measured) {
  const topo::Topology& topology = arrangement.topology();
  std::vector<NodeId> all(topology.nodes().size());
  for (NodeId node = 0; node < all.size(); ++node) all[node] = node;
  std::string text =
      fmt::format("{} host{}: {}\n", topology.hosts().size(),
                  topology.hosts().size() == 1 ? "" : "s", count_of_nodes(arrangement, all));
  text += hosts_text(arrangement) + network_text(arrangement);
  for (const Measured& row : measured)
    text += fmt::format("{}  {}\n", &row == measured.data() ? "\nmeasured\n" : "",
                        sentence(row, topology));
  for (const std::string& assumption : assumptions)
    text +=
        fmt::format("{}  {}\n", &assumption == assumptions.data() ? "\nassumed\n" : "", assumption);
  return text;
}

}  // namespace tutti::tools
