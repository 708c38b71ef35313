// Direct networks, in which hosts forward for one another: each place has a router that does.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/result.hpp"
#include "tools/fabric/wiring.hpp"

namespace tutti::topo {
namespace {

using Sizes = std::vector<std::uint32_t>;

/// Of the lengths, at most 2^32: more places than there can be hosts.
std::uint64_t product(const Sizes& sizes) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 32U;
  std::uint64_t places = 1;
  for (const std::uint32_t size : sizes) places = std::min(places * size, kMost);
  return places;
}

std::string joined(const Sizes& sizes, std::string_view separator) {
  return fmt::format("{}", fmt::join(sizes, separator));
}

/// Coordinates of a position in row-major order.
Sizes coordinates(const Sizes& sizes, std::uint64_t position) {
  Sizes at(sizes.size());
  for (std::size_t d = sizes.size(); d-- > 0; position /= sizes[d])
    at[d] = static_cast<std::uint32_t>(position % sizes[d]);
  return at;
}

/// A grid of places, in which each unit fills a block.
struct Grid {
  Sizes sizes;
  Sizes block;  // as many dimensions; each divides its size

  /// The place that lies at `position`, units in row-major order and GPUs inside them as well.
  [[nodiscard]] std::uint64_t place(std::uint64_t position) const {
    const Sizes at = coordinates(sizes, position);
    std::uint64_t unit = 0, inside = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      unit = unit * (sizes[d] / block[d]) + at[d] / block[d];
      inside = inside * block[d] + at[d] % block[d];
    }
    return unit * product(block) + inside;
  }
};

Result<Grid> grid_of(const Wiring& wiring, const FabricShape& shape, Sizes sizes) {
  if (product(sizes) != wiring.places())
    return make_error(Code::kInvalidArgument, "a {} of {} has {} places, but the hosts fill {}",
                      name_of(shape.kind), joined(sizes, "x"), product(sizes), wiring.places());
  Grid grid{std::move(sizes), wiring.block()};
  // A row of GPUs lies along the last dimension, where neighbours have neighbouring positions.
  const std::size_t dimensions = grid.sizes.size();
  if (grid.block.size() == 1 && dimensions > 1)
    grid.block.insert(grid.block.begin(), dimensions - 1, 1);
  bool fits = grid.block.size() <= dimensions;
  grid.block.resize(dimensions, 1);
  for (std::size_t d = 0; d < dimensions; ++d) fits = fits && grid.sizes[d] % grid.block[d] == 0;
  if (fits) return grid;
  return make_error(Code::kInvalidArgument,
                    "the GPUs of a host lie as {}, which does not tile a {} of {}",
                    joined(wiring.block(), "x"), name_of(shape.kind), joined(grid.sizes, "x"));
}

/// A router at each position, named by its coordinates.
std::vector<NodeId> add_routers(Wiring& wiring, const Grid& grid, std::uint32_t cables) {
  std::vector<NodeId> routers;
  for (std::uint64_t i = 0; i < product(grid.sizes); ++i)
    routers.push_back(wiring.add_router(
        grid.place(i), "router" + joined(coordinates(grid.sizes, i), "."), cables));
  return routers;
}

/// One router for each place, in order.
std::vector<NodeId> add_routers(Wiring& wiring, std::uint32_t cables) {
  std::vector<NodeId> routers;
  for (std::uint64_t i = 0; i < wiring.places(); ++i)
    routers.push_back(wiring.add_router(i, fmt::format("router{}", i), cables));
  return routers;
}

Status check_places(const Wiring& wiring, const FabricShape& shape, std::uint64_t places) {
  if (wiring.places() == places) return ok_status();
  return make_error(Code::kInvalidArgument,
                    "a {} of ports={} and levels={} has {} places, but the hosts fill {}",
                    name_of(shape.kind), shape.ports, shape.levels,
                    places > kMostFabricHosts ? fmt::format("more than {}", kMostFabricHosts)
                                              : std::to_string(places),
                    wiring.places());
}

/// Servers of a DCell of level `level`, or a number beyond all hosts.
std::uint64_t dcell_places(std::uint32_t ports, std::uint32_t level) {
  std::uint64_t places = ports;
  for (std::uint32_t i = 0; i < level && places <= kMostFabricHosts; ++i) places *= places + 1;
  return places;
}

}  // namespace

Status wire_torus(Wiring& wiring, const FabricShape& shape) {
  const bool ring = shape.kind == FabricKind::kOpticalRing;
  const Sizes sizes = ring ? Sizes{static_cast<std::uint32_t>(wiring.places())} : shape.sizes;
  TUTTI_ASSIGN(const Grid grid, grid_of(wiring, shape, sizes));
  const auto routers = add_routers(wiring, grid, 2 * static_cast<std::uint32_t>(grid.sizes.size()));
  std::uint64_t stride = routers.size();
  for (const std::uint32_t size : grid.sizes) {
    stride /= size;
    for (std::uint64_t i = 0; i < routers.size(); ++i) {
      const std::uint64_t along = i / stride % size;
      if (along + 1 < size)
        wiring.cable(routers[i], routers[i + stride]);
      else if (shape.wrap == 1 && size > 2)
        wiring.cable(routers[i], routers[i - along * stride]);
    }
  }
  return ok_status();
}

/// On a board a mesh. Where a line of places leaves its boards, both its ends on each board go to
/// the switch of that line.
Status wire_hamming_mesh(Wiring& wiring, const FabricShape& shape) {
  for (std::size_t d = 0; d < 2; ++d)
    if (2 * std::uint64_t{shape.sizes[d]} > shape.radix)
      return make_error(Code::kInvalidArgument,
                        "a line of {} boards needs a switch of {} ports, but radix is {}",
                        shape.sizes[d], 2 * std::uint64_t{shape.sizes[d]}, shape.radix);
  if (product(shape.sizes) > kMostFabricHosts || product(shape.board) > kMostFabricHosts)
    return make_error(Code::kInvalidArgument, "{} boards of {} places: at most {} of each",
                      joined(shape.sizes, "x"), joined(shape.board, "x"), kMostFabricHosts);
  const Sizes lengths = {shape.sizes[0] * shape.board[0], shape.sizes[1] * shape.board[1]};
  TUTTI_ASSIGN(const Grid grid, grid_of(wiring, shape, lengths));
  const auto routers = add_routers(wiring, grid, 4);
  for (std::size_t d = 0; d < 2; ++d) {
    const std::uint64_t stride = d == 0 ? lengths[1] : 1, other = d == 0 ? 1 : lengths[1];
    for (std::uint32_t line = 0; line < lengths[1 - d]; ++line) {
      const NodeId joint = wiring.add_switch(fmt::format("{}{}", d == 0 ? "column" : "row", line));
      for (std::uint32_t along = 0; along < lengths[d]; ++along) {
        const NodeId here = routers[line * other + along * stride];
        if (along % shape.board[d] == 0) wiring.cable(here, joint);
        if (along % shape.board[d] == shape.board[d] - 1)
          wiring.cable(here, joint);
        else
          wiring.cable(here, routers[line * other + (along + 1) * stride]);
      }
    }
  }
  return ok_status();
}

/// Level l joins the places whose numbers, written in base `ports`, differ in digit l alone.
Status wire_bcube(Wiring& wiring, const FabricShape& shape) {
  if (shape.levels == 0)
    return make_error(Code::kInvalidArgument, "a bcube needs at least one level of switches");
  TUTTI_TRY(check_places(wiring, shape, product(Sizes(shape.levels, shape.ports))));
  const auto routers = add_routers(wiring, shape.levels);
  std::uint64_t stride = 1;
  for (std::uint32_t level = 0; level < shape.levels; ++level, stride *= shape.ports) {
    std::vector<NodeId> switches;
    for (std::uint64_t i = 0; i < routers.size() / shape.ports; ++i)
      switches.push_back(wiring.add_switch(fmt::format("level{}.switch{}", level, i)));
    for (std::uint64_t i = 0; i < routers.size(); ++i)
      wiring.cable(routers[i], switches[i / (stride * shape.ports) * stride + i % stride]);
  }
  return ok_status();
}

/// A cell of level l is made of one more cell of level l - 1 than these have servers: server j - 1
/// of cell i is joined with server i of cell j, for all i < j.
Status wire_dcell(Wiring& wiring, const FabricShape& shape) {
  TUTTI_TRY(check_places(wiring, shape, dcell_places(shape.ports, shape.levels)));
  const auto routers = add_routers(wiring, shape.levels + 1);
  for (std::uint64_t i = 0; i < routers.size(); i += shape.ports) {
    const NodeId middle = wiring.add_switch(fmt::format("switch{}", i / shape.ports));
    for (std::uint64_t j = 0; j < shape.ports; ++j) wiring.cable(routers[i + j], middle);
  }
  for (std::uint32_t level = 1; level <= shape.levels; ++level) {
    const std::uint64_t part = dcell_places(shape.ports, level - 1), whole = part * (part + 1);
    for (std::uint64_t first = 0; first < routers.size(); first += whole)
      for (std::uint64_t i = 0; i <= part; ++i)
        for (std::uint64_t j = i + 1; j <= part; ++j)
          wiring.cable(routers[first + i * part + j - 1], routers[first + j * part + i]);
  }
  return ok_status();
}

}  // namespace tutti::topo
