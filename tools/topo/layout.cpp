#include "tools/topo/layout.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "tools/topo/fabric.hpp"
#include "tools/topo/text.hpp"

namespace tutti::tools {
namespace {

using topo::HostId;
using topo::LinkKind;
using topo::NodeId;
using topo::NodeKind;

constexpr double kPadding = 14, kTitle = 30, kGap = 8;
constexpr double kBar = 30, kDevice = 38, kRowGap = 26;
constexpr double kHostGap = 28, kGroupGap = 22;
constexpr double kBriefNic = 22, kBriefHeight = 100;
/// Wider pictures show fewer hosts in full, and then fewer hosts.
constexpr double kFullWidth = 2200, kMostWidth = 2600;
constexpr std::size_t kMostHosts = 64;

bool is_nic(const Arrangement& arrangement, NodeId node) {
  return arrangement.topology().node(node).kind == NodeKind::kNic;
}

/// Switches of NVLink and of the network, and the outside of NICs, are no part of a host's forest.
bool is_plane(const Arrangement& arrangement, NodeId node) {
  const NodeKind kind = arrangement.topology().node(node).kind;
  return kind == NodeKind::kNvswitch || kind == NodeKind::kSwitch;
}

/// One host, laid out from its top left corner.
class HostLayout {
 public:
  HostLayout(const Arrangement& arrangement, HostId host, Layout& layout)
      : arrangement_(arrangement), host_(host), layout_(layout) {
    for (const NodeId root : arrangement.roots(host)) {
      if (is_plane(arrangement, root)) {
        if (arrangement.topology().node(root).kind == NodeKind::kNvswitch) planes_.push_back(root);
        continue;
      }
      roots_.push_back(root);
      depth_ = std::max(depth_, bars_below(root));
    }
  }

  HostBox place(double x, double y) {
    HostBox box{.host = host_, .frame = {x, y, 0, 0}, .groups = {}, .brief = false, .summary = {}};
    const double top = y + kTitle + headroom();
    double at = x + kPadding;
    for (const NodeId root : roots_) {
      const double start = at;
      at = place_node(root, at + kGap, top + kGap, 0) + kGap;
      const double bottom = is_bar(arrangement_, root) && arrangement_.children(root).empty()
                                ? top + kGap + kBar + kGap
                                : device_y(top) + kDevice + kGap;
      box.groups.push_back({start, top, at - start, bottom - top});
      at += kGroupGap;
    }
    const double width = std::max(at - kGroupGap - x + kPadding,
                                  text_width(arrangement_.topology().hosts()[host_].name, 14) + 40);
    double bottom = top;
    for (const Box& group : box.groups) bottom = std::max(bottom, group.bottom());
    bottom = place_planes(bottom) + arcs_below();
    box.frame.width = width;
    box.frame.height = bottom + kPadding - y;
    return box;
  }

 private:
  [[nodiscard]] double device_y(double top) const { return top + kGap + depth_ * (kBar + kRowGap); }

  [[nodiscard]] int bars_below(NodeId node) const {  // at most Arrangement::kMostDepth deep
    if (!is_bar(arrangement_, node)) return 0;
    int deepest = 0;
    for (const NodeId child : arrangement_.children(node))
      deepest = std::max(deepest, bars_below(child));
    return deepest + 1;
  }

  /// For what joins more than two CPUs.
  [[nodiscard]] double headroom() const {
    const auto cpus = std::ranges::count_if(roots_, [&](NodeId root) {
      return arrangement_.topology().node(root).kind == NodeKind::kCpu;
    });
    if (cpus <= 2) return 4;
    return joins_all_cpus(arrangement_, host_) ? 30 : 52;
  }

  /// For the arcs between GPUs, which are placed.
  [[nodiscard]] double arcs_below() const {
    double lowest = 0;
    for (const Wire& wire : arrangement_.wires()) {
      const auto& a = arrangement_.topology().node(wire.a);
      const auto& b = arrangement_.topology().node(wire.b);
      if (wire.kind != LinkKind::kNvlink || a.host != host_ || b.host != host_ ||
          a.kind != NodeKind::kGpu || b.kind != NodeKind::kGpu)
        continue;
      lowest = std::max(lowest, 0.75 * arc_depth(layout_.nodes[wire.a], layout_.nodes[wire.b]));
    }
    return lowest;
  }

  /// Places a node and what hangs from it; returns the right end of all of it.
  double place_node(NodeId node, double x, double y, int level) {
    const Label label = label_of(arrangement_, node);
    const double text = std::max(text_width(label.first, 11), text_width(label.second, 9)) + 12;
    const double text_of_bar = text_width(label.first + ", " + label.second, 11) + 24;
    if (!is_bar(arrangement_, node)) {
      const double least = is_nic(arrangement_, node) ? 46 : 54;
      const Box box{x, y + (depth_ - level) * (kBar + kRowGap), std::max(text, least), kDevice};
      layout_.nodes[node] = box;
      double right = box.right();
      for (const NodeId child : arrangement_.children(node))
        right = place_node(child, right + kGap, y, level);
      return right;
    }
    double right = x;
    for (const NodeId child : arrangement_.children(node))
      if (!is_nic(arrangement_, child))
        right = place_node(child, right > x ? right + kGap : x, y + kBar + kRowGap, level + 1);
    const double least = level == 0 ? text_of_bar : 40;
    right = std::max(right, x + least);
    layout_.nodes[node] = {x, y, right - x, kBar};
    for (const NodeId child : arrangement_.children(node))
      if (is_nic(arrangement_, child))
        right = place_node(child, right + kGap, y + kBar + kRowGap, level + 1);
    return right;
  }

  /// NVSwitches below all GPUs.
  double place_planes(double bottom) {
    std::optional<double> left, right;
    for (const NodeId node : arrangement_.topology().nodes_of(host_)) {
      if (arrangement_.topology().node(node).kind != NodeKind::kGpu) continue;
      const Box& box = layout_.nodes[node];
      left = std::min(left.value_or(box.x), box.x);
      right = std::max(right.value_or(box.right()), box.right());
    }
    for (const NodeId plane : planes_) {
      if (!left) continue;
      layout_.nodes[plane] = {*left, bottom + kRowGap, *right - *left, kPlaneHeight};
      bottom += kRowGap + kPlaneHeight;
    }
    return bottom;
  }

  const Arrangement& arrangement_;
  HostId host_;
  Layout& layout_;
  std::vector<NodeId> roots_;
  std::vector<NodeId> planes_;
  int depth_ = 0;  ///< most bars above a device
};

double brief_width(const Arrangement& arrangement, HostId host) {
  const auto nics = static_cast<double>(nics_of(arrangement, host).size());
  return std::max(nics * (kBriefNic + 4) + 2 * kPadding, 190.0);
}

HostBox place_brief(const Arrangement& arrangement, HostId host, double x, double y,
                    Layout& layout) {
  HostBox box{.host = host,
              .frame = {x, y, brief_width(arrangement, host), kBriefHeight},
              .groups = {},
              .brief = true,
              .summary = count_of_nodes(arrangement, arrangement.topology().nodes_of(host))};
  double at = x + kPadding;
  for (const NodeId nic : nics_of(arrangement, host)) {
    layout.nodes[nic] = {at, y + 12, kBriefNic, 16};
    at += kBriefNic + 4;
  }
  return box;
}

/// Which hosts are drawn, and how many of them in full.
struct Choice {
  std::vector<HostId> hosts;
  std::size_t full = 0;
  double width = 0;  ///< of all of them side by side
};

Choice choose(const Arrangement& arrangement) {
  const auto width_in_full = [&](HostId host) {
    Layout scratch;
    return HostLayout(arrangement, host, scratch).place(0, 0).frame.width + kHostGap;
  };
  const std::size_t count = arrangement.topology().hosts().size();
  if (count == 0) return {};
  Choice choice{{0}, 1, width_in_full(0)};
  if (count > kMostHosts) return choice;
  double all_in_full = 0, with_briefs = choice.width;
  for (HostId host = 0; host < count; ++host) {
    all_in_full += width_in_full(host);
    if (host > 0) with_briefs += brief_width(arrangement, host) + kHostGap;
  }
  if (all_in_full > kFullWidth && with_briefs > kMostWidth) return choice;
  for (HostId host = 1; host < count; ++host) choice.hosts.push_back(host);
  if (all_in_full <= kFullWidth) choice.full = count;
  choice.width = choice.full == count ? all_in_full : with_briefs;
  return choice;
}

/// "the others are built like it": how many hosts are like the first in all that lies within them
/// and in the speed of their links to the network, wherever these lead.
std::string others_like_the_first(const Arrangement& arrangement) {
  const std::size_t count = arrangement.topology().hosts().size();
  const std::string first = tree_of(arrangement, 0, Ends::kCounted);
  std::size_t alike = 0;
  for (HostId host = 1; host < count; ++host)
    alike += tree_of(arrangement, host, Ends::kCounted) == first ? 1 : 0;
  if (alike + 1 == count)
    return std::string(count == 2 ? "the other is" : "the others are") + " built like it";
  if (alike == 0) return count == 2 ? "the other differs" : "the others differ from it";
  return fmt::format("{} of {} others are built like it", alike, count - 1);
}

/// Of the hosts that are drawn in brief or not at all.
std::string note_of(const Arrangement& arrangement, const Choice& choice) {
  const std::size_t count = arrangement.topology().hosts().size();
  if (choice.full == count) return "";
  const std::string others = others_like_the_first(arrangement);
  return choice.hosts.size() == count
             ? fmt::format("the first host is drawn in full: {}", others)
             : fmt::format("the first of {} hosts is drawn: {}", count, others);
}

/// Below a grid whose places are hosts of several parts, what is in one of them.
void add_first_host(const Arrangement& arrangement, Layout& grid) {
  if (arrangement.topology().nodes_of(0).size() == 1) return;
  grid.hosts.push_back(HostLayout(arrangement, 0, grid).place(kMargin, grid.height + kHostGap));
  grid.width = std::max(grid.width, grid.hosts.back().frame.right() + kMargin);
  grid.height = grid.hosts.back().frame.bottom();
  grid.note += fmt::format("{}below the network is the first host: {}",
                           grid.note.empty() ? "" : "; ", others_like_the_first(arrangement));
}

}  // namespace

bool is_bar(const Arrangement& arrangement, NodeId node) {
  const NodeKind kind = arrangement.topology().node(node).kind;
  return kind == NodeKind::kPci ||
         (kind == NodeKind::kCpu && arrangement.parent(node) == Arrangement::kNone);
}

bool joins_all_cpus(const Arrangement& arrangement, HostId host) {
  std::size_t cpus = 0, wires = 0;
  std::set<double> bandwidths;
  for (const NodeId node : arrangement.topology().nodes_of(host)) {
    if (arrangement.topology().node(node).kind != NodeKind::kCpu) continue;
    ++cpus;
    for (const std::uint32_t at : arrangement.wires_at(node)) {
      const Wire& wire = arrangement.wires()[at];
      if (wire.kind != LinkKind::kSystem || wire.a != node ||
          arrangement.topology().node(wire.b).kind != NodeKind::kCpu)
        continue;
      ++wires;
      bandwidths.insert(wire.bandwidth);
    }
  }
  return cpus > 2 && wires == cpus * (cpus - 1) / 2 && bandwidths.size() == 1;
}

double arc_depth(const Box& a, const Box& b) {
  return std::min(26 + 0.19 * std::abs(a.center_x() - b.center_x()), 140.0);
}

double text_width(std::string_view text, double size) {
  return 0.6 * size * static_cast<double>(std::ranges::count_if(text, [](char c) {
           return (c & 0xC0) != 0x80;
         }));
}

Label label_of(const Arrangement& arrangement, NodeId id) {
  const topo::Node& node = arrangement.topology().node(id);
  const auto speed_out = [&] {
    for (const std::uint32_t at : arrangement.wires_at(id))
      if (const Wire& wire = arrangement.wires()[at]; wire.kind == LinkKind::kNetwork)
        return speed(wire.kind, wire.whole);
    const double told = told_network_bandwidth(arrangement, id);
    return told > 0 ? speed(LinkKind::kNetwork, told) : std::string();
  };
  switch (node.kind) {
    case NodeKind::kGpu: {
      const std::string processor = processor_of(node);
      return {node.name, processor.empty() ? "GPU" : fmt::format("GPU, {}", processor)};
    }
    case NodeKind::kNic:
      return {node.name, speed_out()};
    case NodeKind::kCpu: {
      const std::string_view numa = attribute(node, "numaid");
      return {node.name, numa.empty() ? "" : fmt::format("NUMA {}", numa)};
    }
    case NodeKind::kPci:
      return {arrangement.is_memory(id) ? node.name : "PCI", ""};
    case NodeKind::kNvswitch:
    case NodeKind::kSwitch:
      break;
  }
  return {node.name, ""};
}

Layout lay_out(const Arrangement& arrangement, double top) {
  if (Layout grid = lay_out_grid(arrangement, top); !grid.places.empty()) {
    add_first_host(arrangement, grid);
    return grid;
  }
  Layout layout;
  const Choice choice = choose(arrangement);
  const auto fabric = fabric_of(arrangement, choice.hosts);
  const double hosts_y = top + std::max(fabric_height(fabric, choice.width), 12.0);
  double x = kMargin;
  layout.height = hosts_y;
  for (std::size_t i = 0; i < choice.hosts.size(); ++i) {
    layout.hosts.push_back(i < choice.full
                               ? HostLayout(arrangement, choice.hosts[i], layout).place(x, hosts_y)
                               : place_brief(arrangement, choice.hosts[i], x, hosts_y, layout));
    const Box& frame = layout.hosts.back().frame;
    x = frame.right() + kHostGap;
    layout.height = std::max(layout.height, frame.bottom());
  }
  layout.width = std::max(x - kHostGap + kMargin, 400.0);
  place_shared_planes(arrangement, layout);
  layout.note = note_of(arrangement, choice);
  place_fabric(arrangement, fabric, top, layout);
  const auto left_out =
      std::ranges::count_if(arrangement.topology().nodes_of(topo::kNoHost), [&](NodeId node) {
        return arrangement.topology().node(node).kind == NodeKind::kSwitch &&
               !arrangement.is_outside(node) && !layout.nodes.contains(node);
      });
  if (left_out > 0)
    layout.note +=
        fmt::format("{}{} switches are not drawn", layout.note.empty() ? "" : "; ", left_out);
  return layout;
}

}  // namespace tutti::tools
