// The layout of rings, tori and meshes: every host is one GPU, and its name its coordinates.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>

#include <fmt/format.h>

#include "tools/topo_layout.hpp"

namespace tutti::tools {
namespace {

using topo::HostId;
using topo::NodeId;
using topo::NodeKind;

constexpr double kGridMargin = 64, kCellWidth = 58, kCellHeight = 32;
constexpr double kPitchX = 96, kPitchY = 76, kPlaneGap = 40;
/// Most hosts that are drawn along each dimension, by the number of dimensions.
constexpr std::uint32_t kMostAlong[] = {48, 16, 4};

using Coordinates = std::vector<std::uint32_t>;

/// "1.0.2"; up to three numbers.
std::optional<Coordinates> parse_coordinates(std::string_view name) {
  Coordinates all;
  while (all.size() < std::size(kMostAlong)) {
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc{}) return std::nullopt;
    all.push_back(number);
    name.remove_prefix(static_cast<std::size_t>(end - name.data()));
    if (name.empty()) return all;
    if (name[0] != '.') return std::nullopt;
    name.remove_prefix(1);
  }
  return std::nullopt;
}

/// Of every host, in their order; nullopt unless all hosts are one GPU beside a router of the same
/// name, with equally many coordinates.
std::optional<std::vector<Coordinates>> coordinates_of(const Arrangement& arrangement) {
  const topo::Topology& topology = arrangement.topology();
  std::vector<Coordinates> all;
  for (HostId host = 0; host < topology.hosts().size(); ++host) {
    const auto nodes = topology.nodes_of(host);
    const auto at = parse_coordinates(topology.hosts()[host].name);
    if (nodes.size() != 1 || !at || topology.node(nodes[0]).kind != NodeKind::kGpu ||
        (!all.empty() && at->size() != all[0].size()))
      return std::nullopt;
    const auto wires = arrangement.wires_at(nodes[0]);
    const bool beside_router = std::ranges::any_of(wires, [&](std::uint32_t wire) {
      const NodeId other = arrangement.wires()[wire].other(nodes[0]);
      return topology.node(other).host == topo::kNoHost &&
             topology.node(other).name == topology.hosts()[host].name;
    });
    if (!beside_router) return std::nullopt;
    all.push_back(*at);
  }
  return all.size() < 2 ? std::nullopt : std::optional(all);
}

/// A ring is round; the planes of a third dimension stand side by side.
Box place(const Coordinates& at, const Coordinates& drawn, double top) {
  if (at.size() == 1) {
    const double radius = std::max(110.0, drawn[0] * (kCellWidth + 18) / (2 * std::numbers::pi));
    const double angle = 2 * std::numbers::pi * at[0] / drawn[0] - std::numbers::pi / 2;
    return {kGridMargin + radius + radius * std::cos(angle), top + radius * (1 + std::sin(angle)),
            kCellWidth, kCellHeight};
  }
  const double plane = at.size() == 3 ? at[0] * (drawn[2] * kPitchX + kPlaneGap) : 0;
  return {kGridMargin + plane + at.back() * kPitchX, top + 26 + at[at.size() - 2] * kPitchY,
          kCellWidth, kCellHeight};
}

}  // namespace

Layout lay_out_grid(const Arrangement& arrangement, double top) {
  const auto coordinates = coordinates_of(arrangement);
  if (!coordinates) return {};
  const std::size_t dimensions = coordinates->front().size();
  Coordinates drawn(dimensions, 1);
  for (const Coordinates& at : *coordinates)
    for (std::size_t d = 0; d < dimensions; ++d)
      drawn[d] = std::max(drawn[d], std::min(at[d] + 1, kMostAlong[dimensions - 1]));

  Layout layout{.width = 560, .height = top, .hosts = {}, .nodes = {}, .grid = true, .note = {}};
  for (HostId host = 0; host < coordinates->size(); ++host) {
    const Coordinates& at = (*coordinates)[host];
    if (std::ranges::any_of(at, [&](std::uint32_t c) { return c >= kMostAlong[dimensions - 1]; }))
      continue;
    const Box box = place(at, drawn, top);
    layout.nodes[arrangement.topology().nodes_of(host)[0]] = box;
    layout.width = std::max(layout.width, box.right() + kGridMargin);
    layout.height = std::max(layout.height, box.bottom() + 24);
  }
  if (layout.nodes.size() < coordinates->size())
    layout.note = fmt::format("{} of {} hosts are drawn: the first {} along each dimension",
                              layout.nodes.size(), coordinates->size(), kMostAlong[dimensions - 1]);
  if (dimensions == 3)
    layout.note += fmt::format("{}links along the first dimension are not drawn",
                               layout.note.empty() ? "" : "; ");
  return layout;
}

}  // namespace tutti::tools
