// The layout of direct networks: rings, tori, meshes and Hamming meshes. What is drawn in the grid
// are the routers, each as what it forwards for: a host, or one GPU of it.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "tools/topo/layout.hpp"

namespace tutti::tools {
namespace {

using topo::HostId;
using topo::NodeId;
using topo::NodeKind;

constexpr double kGridMargin = 64, kCellWidth = 58, kCellHeight = 32;
constexpr double kPitchX = 96, kPitchY = 76, kPlaneGap = 40, kBoardGap = 36;
constexpr double kSwitchWidth = 62, kSwitchHeight = 20;
/// Most places that are drawn along each dimension, by the number of dimensions.
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

/// The number of a switch that joins a line of places: 3 of "row3" for "row".
std::optional<std::uint32_t> line_of(std::string_view name, std::string_view kind) {
  if (!name.starts_with(kind)) return std::nullopt;
  const auto at = parse_coordinates(name.substr(kind.size()));
  return at && at->size() == 1 ? std::optional(at->front()) : std::nullopt;
}

struct Router {
  NodeId node = 0;
  Coordinates at;
};
struct LineSwitch {
  NodeId node = 0;
  bool is_row = false;
  std::uint32_t line = 0;
};

/// The network of a topology, if it is a grid and nothing else.
struct Grid {
  std::vector<Router> routers;
  std::vector<LineSwitch> switches;
};

/// Routers are named by their coordinates, "router1.0", or as their host is, "1.0".
std::optional<Grid> grid_of(const topo::Topology& topology) {
  constexpr std::string_view kRouter = "router";
  Grid grid;
  for (const NodeId node : topology.nodes_of(topo::kNoHost)) {
    std::string_view name = topology.node(node).name;
    const auto row = line_of(name, "row"), column = line_of(name, "column");
    if (row || column) {
      grid.switches.push_back({node, row.has_value(), row ? *row : *column});
      continue;
    }
    if (name.starts_with(kRouter)) name.remove_prefix(kRouter.size());
    const auto at = parse_coordinates(name);
    if (!at || (!grid.routers.empty() && at->size() != grid.routers[0].at.size()))
      return std::nullopt;
    grid.routers.push_back({node, *at});
  }
  const bool is_grid =
      grid.routers.size() > 1 && (grid.switches.empty() || grid.routers[0].at.size() == 2);
  return is_grid ? std::optional(std::move(grid)) : std::nullopt;
}

/// What a router forwards for; nullopt where it is nothing, or several hosts.
std::optional<Place> place_of(const Arrangement& arrangement, const Router& router) {
  const topo::Topology& topology = arrangement.topology();
  std::set<HostId> hosts;
  NodeId last = 0;
  for (const std::uint32_t wire : arrangement.wires_at(router.node)) {
    const NodeId other = arrangement.wires()[wire].other(router.node);
    if (topology.node(other).host == topo::kNoHost) continue;
    hosts.insert(topology.node(other).host);
    last = other;
  }
  if (hosts.size() != 1) return std::nullopt;
  const HostId host = *hosts.begin();
  const bool is_gpu = topology.node(last).kind == NodeKind::kGpu;
  const bool alone = topology.nodes_of(host).size() == 1;
  return Place{.label = {topology.hosts()[host].name,
                         is_gpu && !alone ? topology.node(last).name : std::string()},
               .look = is_gpu ? NodeKind::kGpu : NodeKind::kSwitch,
               .plane = router.at.size() == 3 ? router.at[0] : 0};
}

/// Where rows and columns of a grid of two dimensions leave room, since boards end there.
class Boards {
 public:
  explicit Boards(const Arrangement& arrangement, const Grid& grid) {
    if (grid.switches.empty()) return;
    std::map<NodeId, const Coordinates*> places;
    for (const Router& router : grid.routers) places[router.node] = &router.at;
    for (const Router& router : grid.routers)
      for (const std::uint32_t wire : arrangement.wires_at(router.node)) {
        const auto other = places.find(arrangement.wires()[wire].other(router.node));
        if (other == places.end()) continue;
        for (std::size_t d = 0; d < 2; ++d)
          if ((*other->second)[d] == router.at[d] + 1) joined_[d].insert(router.at[d]);
      }
    has_boards_ = true;
  }

  /// Pixels for all gaps before position `at` of a dimension.
  [[nodiscard]] double before(std::size_t dimension, std::uint32_t at) const {
    if (!has_boards_) return 0;
    double gaps = 0;
    for (std::uint32_t i = 0; i < at; ++i) gaps += joined_[dimension].contains(i) ? 0 : kBoardGap;
    return gaps;
  }

 private:
  bool has_boards_ = false;
  std::set<std::uint32_t> joined_[2];  // positions whose places are joined with the next
};

/// A ring is round; the planes of a third dimension stand side by side.
Box box_of(const Coordinates& at, const Coordinates& drawn, const Boards& boards, double top) {
  if (at.size() == 1) {
    const double radius = std::max(110.0, drawn[0] * (kCellWidth + 18) / (2 * std::numbers::pi));
    const double angle = 2 * std::numbers::pi * at[0] / drawn[0] - std::numbers::pi / 2;
    return {kGridMargin + radius + radius * std::cos(angle), top + radius * (1 + std::sin(angle)),
            kCellWidth, kCellHeight};
  }
  const double plane = at.size() == 3 ? at[0] * (drawn[2] * kPitchX + kPlaneGap) : 0;
  const std::uint32_t row = at[at.size() - 2], column = at.back();
  return {kGridMargin + plane + column * kPitchX + boards.before(1, column),
          top + 26 + row * kPitchY + boards.before(0, row), kCellWidth, kCellHeight};
}

/// Switches of rows on their right, those of columns below them; the lines that lead there run
/// beside the places.
void place_switches(const Grid& grid, const Coordinates& drawn, const Boards& boards, double top,
                    Layout& layout) {
  const double right = layout.width, bottom = layout.height;
  for (const LineSwitch& each : grid.switches) {
    if (each.line >= drawn[each.is_row ? 0 : 1]) continue;
    const Box cell = box_of(each.is_row ? Coordinates{each.line, 0} : Coordinates{0, each.line},
                            drawn, boards, top);
    layout.nodes[each.node] =
        each.is_row
            ? Box{right - kGridMargin + 30, cell.bottom() + 8 - kSwitchHeight / 2, kSwitchWidth,
                  kSwitchHeight}
            : Box{cell.right() + 10 - kSwitchWidth / 2, bottom, kSwitchWidth, kSwitchHeight};
    layout.places[each.node] = {.label = {},
                                .look = NodeKind::kSwitch,
                                .plane = 0,
                                .joins_row = each.is_row,
                                .joins_column = !each.is_row};
    layout.width = std::max(layout.width, layout.nodes[each.node].right() + kMargin);
    layout.height = std::max(layout.height, layout.nodes[each.node].bottom() + kMargin);
  }
}

std::string note_of(const Grid& grid, std::size_t drawn, std::size_t dimensions) {
  std::string note;
  if (drawn < grid.routers.size())
    note = fmt::format("{} of {} places are drawn: the first {} along each dimension", drawn,
                       grid.routers.size(), kMostAlong[dimensions - 1]);
  if (dimensions == 3)
    note +=
        fmt::format("{}links along the first dimension are not drawn", note.empty() ? "" : "; ");
  return note;
}

}  // namespace

Layout lay_out_grid(const Arrangement& arrangement, double top) {
  const auto grid = grid_of(arrangement.topology());
  if (!grid) return {};
  const std::size_t dimensions = grid->routers.front().at.size();
  const std::uint32_t most = kMostAlong[dimensions - 1];
  Coordinates drawn(dimensions, 1);
  for (const Router& router : grid->routers)
    for (std::size_t d = 0; d < dimensions; ++d)
      drawn[d] = std::max(drawn[d], std::min(router.at[d] + 1, most));
  const Boards boards(arrangement, *grid);

  Layout layout;
  layout.width = 560;
  layout.height = top;
  for (const Router& router : grid->routers) {
    const auto place = place_of(arrangement, router);
    if (!place) return {};
    if (std::ranges::any_of(router.at, [&](std::uint32_t c) { return c >= most; })) continue;
    const Box box = box_of(router.at, drawn, boards, top);
    layout.nodes[router.node] = box;
    layout.places[router.node] = *place;
    layout.width = std::max(layout.width, box.right() + kGridMargin);
    layout.height = std::max(layout.height, box.bottom() + 24);
  }
  layout.note = note_of(*grid, layout.places.size(), dimensions);
  place_switches(*grid, drawn, boards, top, layout);
  return layout;
}

}  // namespace tutti::tools
