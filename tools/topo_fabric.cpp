#include "tools/topo_fabric.hpp"

#include <algorithm>
#include <set>

namespace tutti::tools {
namespace {

using topo::HostId;
using topo::NodeId;
using topo::NodeKind;

constexpr double kRow = 30, kRowGap = 54, kFan = 96, kGap = 8, kAbovePlane = 26;

/// Spreads the switches of a row over the width, in the order of where what they join lies; leaves
/// out those for which there is no room, and returns how many.
std::size_t place_row(const Arrangement& arrangement, const std::vector<NodeId>& row, double y,
                      Layout& layout) {
  std::vector<std::pair<double, NodeId>> wanted;
  double widest = 72;
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
  }
  std::ranges::sort(wanted);
  const double room = layout.width - 2 * kMargin;
  const auto fitting = static_cast<std::size_t>(std::max(room / (widest + kGap), 1.0));
  const std::size_t drawn = std::min(wanted.size(), fitting);
  const double pitch = room / static_cast<double>(drawn);
  for (std::size_t i = 0; i < drawn; ++i)
    layout.nodes[wanted[i].second] = {kMargin + (static_cast<double>(i) + 0.5) * pitch - widest / 2,
                                      y, widest, kRow};
  return row.size() - drawn;
}

}  // namespace

std::vector<NodeId> nics_of(const Arrangement& arrangement, HostId host) {
  std::vector<NodeId> nics;
  for (const NodeId node : arrangement.topology().nodes_of(host))
    if (arrangement.topology().node(node).kind == NodeKind::kNic) nics.push_back(node);
  return nics;
}

FabricRows fabric_of(const Arrangement& arrangement, const std::vector<HostId>& hosts) {
  FabricRows rows;
  std::set<NodeId> known;
  std::vector<NodeId> below;
  for (const HostId host : hosts)
    std::ranges::copy(nics_of(arrangement, host), std::back_inserter(below));
  while (!below.empty()) {
    std::vector<NodeId> row;
    for (const NodeId node : below)
      for (const std::uint32_t at : arrangement.wires_at(node)) {
        const NodeId other = arrangement.wires()[at].other(node);
        if (arrangement.topology().node(other).kind != NodeKind::kSwitch ||
            arrangement.is_outside(other) || !known.insert(other).second)
          continue;
        row.push_back(other);
      }
    std::ranges::sort(row);
    if (!row.empty()) rows.push_back(row);
    below = std::move(row);
  }
  return rows;
}

double fabric_height(const FabricRows& fabric) {
  const auto rows = static_cast<double>(fabric.size());
  return fabric.empty() ? 0 : rows * kRow + (rows - 1) * kRowGap + kFan;
}

std::size_t place_fabric(const Arrangement& arrangement, const FabricRows& fabric, double top,
                         Layout& layout) {
  std::size_t left_out = 0;
  for (std::size_t row = 0; row < fabric.size(); ++row) {
    const auto above = static_cast<double>(fabric.size() - 1 - row);
    left_out += place_row(arrangement, fabric[row], top + above * (kRow + kRowGap), layout);
  }
  return left_out;
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
