#include "tools/topo/fabric.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace tutti::tools {
namespace {

using topo::HostId;
using topo::NodeId;
using topo::NodeKind;

constexpr double kSwitchRow = 30, kSwitchGap = 8, kAbovePlane = 26;
/// Below each row; the wider the picture, the more, or lines become too flat to be told apart.
constexpr double kLeastGap = 80, kMostGap = 170, kWidthOfGap = 11;

/// Lines that end at the top of a switch or at its bottom, whichever are more.
std::size_t lines_at(const Arrangement& arrangement, NodeId node, double y, const Layout& layout) {
  std::size_t above = 0, below = 0;
  for (const std::uint32_t at : arrangement.wires_at(node)) {
    const auto other = layout.nodes.find(arrangement.wires()[at].other(node));
    if (other == layout.nodes.end() || other->second.y < y)
      ++above;  // or to be placed there
    else
      ++below;
  }
  return std::max(above, below);
}

/// Spreads the switches of a row over the width, in the order of where what they join lies; leaves
/// out those for which there is no room.
void place_row(const Arrangement& arrangement, const std::vector<NodeId>& row, double y,
               Layout& layout) {
  std::vector<std::pair<double, NodeId>> wanted;
  double widest = 72;
  std::size_t lines = 0;
  for (const NodeId node : row) {
    double sum = 0, count = 0;
    for (const std::uint32_t at : arrangement.wires_at(node)) {
      const auto below = layout.nodes.find(arrangement.wires()[at].other(node));
      if (below == layout.nodes.end()) continue;
      sum += below->second.center_x();
      ++count;
    }
    wanted.emplace_back(count > 0 ? sum / count : layout.width / 2, node);
    widest = std::max(widest, text_width(label_of(arrangement, node).first, 11) + 20);
    lines = std::max(lines, lines_at(arrangement, node, y, layout));
  }
  std::ranges::sort(wanted);
  const double room = layout.width - 2 * kMargin;
  const auto fitting = static_cast<std::size_t>(std::max(room / (widest + kSwitchGap), 1.0));
  const std::size_t drawn = std::min(wanted.size(), fitting);
  const double pitch = room / static_cast<double>(drawn);
  constexpr double kBetweenLines = 16, kShare = 0.65;  // of the room of a switch
  widest =
      std::max(widest, std::min(kBetweenLines * static_cast<double>(lines + 1), kShare * pitch));
  for (std::size_t i = 0; i < drawn; ++i)
    layout.nodes[wanted[i].second] = {kMargin + (static_cast<double>(i) + 0.5) * pitch - widest / 2,
                                      y, widest, kSwitchRow};
}

}  // namespace

std::vector<NodeId> nics_of(const Arrangement& arrangement, HostId host) {
  std::vector<NodeId> nics;
  for (const NodeId node : arrangement.topology().nodes_of(host))
    if (arrangement.topology().node(node).kind == NodeKind::kNic) nics.push_back(node);
  return nics;
}

namespace {

/// How many cables each switch is away from the nearest NIC, of any host.
std::map<NodeId, int> heights_of(const Arrangement& arrangement) {
  std::map<NodeId, int> heights;
  std::vector<NodeId> below;
  for (NodeId node = 0; node < arrangement.topology().nodes().size(); ++node)
    if (arrangement.topology().node(node).kind == NodeKind::kNic) below.push_back(node);
  for (int height = 1; !below.empty(); ++height) {
    std::vector<NodeId> row;
    for (const NodeId node : below)
      for (const std::uint32_t at : arrangement.wires_at(node)) {
        const NodeId other = arrangement.wires()[at].other(node);
        if (arrangement.topology().node(other).kind == NodeKind::kSwitch &&
            heights.try_emplace(other, height).second)
          row.push_back(other);
      }
    below = std::move(row);
  }
  return heights;
}

}  // namespace

FabricRows fabric_of(const Arrangement& arrangement, const std::vector<HostId>& hosts) {
  FabricRows rows;
  std::set<NodeId> known;
  std::vector<NodeId> below;
  std::map<NodeId, int> heights = heights_of(arrangement);
  for (const HostId host : hosts)
    std::ranges::copy(nics_of(arrangement, host), std::back_inserter(below));
  while (!below.empty()) {
    std::vector<NodeId> row;
    for (const NodeId node : below)
      for (const std::uint32_t at : arrangement.wires_at(node)) {
        const NodeId other = arrangement.wires()[at].other(node);
        if (arrangement.topology().node(other).kind != NodeKind::kSwitch ||
            arrangement.is_outside(other) || heights[other] < heights[node] ||
            !known.insert(other).second)
          continue;  // what leads down again is on the way to other hosts
        row.push_back(other);
      }
    std::ranges::sort(row);
    if (!row.empty()) rows.push_back(row);
    below = std::move(row);
  }
  return rows;
}

double fabric_height(const FabricRows& fabric, double width) {
  const double gap = std::clamp(width / kWidthOfGap, kLeastGap, kMostGap);
  return static_cast<double>(fabric.size()) * (kSwitchRow + gap);
}

void place_fabric(const Arrangement& arrangement, const FabricRows& fabric, double top,
                  Layout& layout) {
  if (fabric.empty()) return;
  const auto rows = static_cast<double>(fabric.size());
  const double pitch = (layout.hosts.front().frame.y - top) / rows;
  for (std::size_t row = 0; row < fabric.size(); ++row) {
    const auto above = static_cast<double>(fabric.size() - 1 - row);
    place_row(arrangement, fabric[row], top + above * pitch, layout);
  }
  const auto lines = std::ranges::count_if(arrangement.wires(), [&](const Wire& wire) {
    return wire.kind == topo::LinkKind::kNetwork && layout.nodes.contains(wire.a) &&
           layout.nodes.contains(wire.b);
  });
  constexpr double kLeastThick = 1.6, kThinnest = 10;  // thick lines may fill a tenth of the width
  layout.thickest_network =
      std::clamp(layout.width * rows / kThinnest / static_cast<double>(std::max(lines, 1L)),
                 kLeastThick, layout.thickest_network);
}

void place_shared_planes(const Arrangement& arrangement, Layout& layout) {
  for (const NodeId node : arrangement.topology().nodes_of(topo::kNoHost)) {
    if (arrangement.topology().node(node).kind != NodeKind::kNvswitch) continue;
    const bool joins = std::ranges::any_of(arrangement.wires_at(node), [&](std::uint32_t at) {
      return layout.nodes.contains(arrangement.wires()[at].other(node));
    });
    if (!joins) continue;
    layout.nodes[node] = {kMargin, layout.height + kAbovePlane, layout.width - 2 * kMargin,
                          kPlaneHeight};
    layout.height += kAbovePlane + kPlaneHeight;
  }
}

}  // namespace tutti::tools
