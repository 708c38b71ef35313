#include "src/ir/layout.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "src/base/result.hpp"

namespace tutti::ir {
namespace {

constexpr std::size_t kMostDimensions = 16;
constexpr std::int64_t kMostTableCells = std::int64_t{1} << 24;

/// nullopt: an extent below 1, or more cells than allowed.
std::optional<std::int64_t> cells_in(std::span<const std::int32_t> extents) {
  std::int64_t cells = 1;
  for (const std::int32_t extent : extents) {
    if (extent < 1) return std::nullopt;
    cells *= extent;
    if (cells > kMostTableCells) return std::nullopt;
  }
  return cells;
}

bool in_order(const std::vector<std::int32_t>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (cells[i] != static_cast<std::int32_t>(i)) return false;
  return true;
}

Layout of_node_sizes(std::span<const std::int32_t> sizes) {
  Layout layout;
  layout.extents = {*std::ranges::max_element(sizes), static_cast<std::int32_t>(sizes.size())};
  for (std::size_t node = 0; node < sizes.size(); ++node)
    for (std::int32_t i = 0; i < sizes[node]; ++i)
      layout.cells.push_back(static_cast<std::int32_t>(node) * layout.extents[0] + i);
  return layout;
}

/// The numbers between separators; nullopt where something else stands there, or more than
/// kMostTableCells.
std::optional<std::vector<std::int32_t>> numbers(std::string_view text, char separator) {
  std::vector<std::int32_t> values;
  for (;;) {
    const std::size_t end = std::min(text.find(separator), text.size());
    std::int32_t value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + end, value);
    if (error != std::errc{} || stop != text.data() + end || value < 0 || value > kMostTableCells)
      return std::nullopt;
    values.push_back(value);
    if (end == text.size()) return values;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

Layout Layout::of_hosts(std::span<const std::int32_t> host) {
  std::map<std::int32_t, std::int32_t> node_of, ranks_of;
  for (const std::int32_t each : host) {
    node_of.emplace(each, static_cast<std::int32_t>(node_of.size()));
    ++ranks_of[each];
  }
  if (node_of.size() <= 1 || node_of.size() == host.size()) return {};
  const auto by_size = [](const auto& a, const auto& b) { return a.second < b.second; };
  const std::int32_t most = std::ranges::max_element(ranks_of, by_size)->second;
  Layout layout{{most, static_cast<std::int32_t>(node_of.size())}, {}};
  std::map<std::int32_t, std::int32_t> placed;
  for (const std::int32_t each : host)
    layout.cells.push_back(node_of[each] * most + placed[each]++);
  return layout;
}

Layout Layout::grid(std::vector<std::int32_t> extents) {
  Layout layout{std::move(extents), {}};
  layout.cells.resize(static_cast<std::size_t>(cells_in(layout.extents).value_or(0)));
  std::iota(layout.cells.begin(), layout.cells.end(), 0);
  return layout;
}

bool Layout::full() const {
  return static_cast<std::int64_t>(cells.size()) == cells_in(extents).value_or(-1);
}

Status check(const Layout& layout, std::int32_t ranks) {
  if (layout.extents.empty() && layout.cells.empty()) return ok_status();
  const std::optional<std::int64_t> cells = cells_in(layout.extents);
  if (!cells || layout.extents.empty() || layout.extents.size() > kMostDimensions)
    return make_error(Code::kInvalidArgument,
                      "a layout of {} dimensions ({}): it needs 1 to {}, each of 1 or more, and at "
                      "most {} cells",
                      layout.extents.size(), fmt::join(layout.extents, " by "), kMostDimensions,
                      kMostTableCells);
  if (layout.cells.size() != static_cast<std::size_t>(std::max(ranks, 0)))
    return make_error(Code::kInvalidArgument, "a layout places {} ranks, and there are {}",
                      layout.cells.size(), ranks);
  std::vector<bool> taken(static_cast<std::size_t>(*cells), false);
  for (std::size_t rank = 0; rank < layout.cells.size(); ++rank) {
    const std::int32_t cell = layout.cells[rank];
    if (cell < 0 || cell >= *cells)
      return make_error(Code::kInvalidArgument,
                        "a layout places rank {} in cell {}, and there are {}", rank, cell, *cells);
    if (taken[static_cast<std::size_t>(cell)])
      return make_error(Code::kInvalidArgument,
                        "a layout places rank {} in cell {}, where another rank is", rank, cell);
    taken[static_cast<std::size_t>(cell)] = true;
  }
  return ok_status();
}

std::vector<std::vector<Rank>> nodes_of(const Layout& layout) {
  std::vector<Rank> by_cell(layout.cells.size());
  std::iota(by_cell.begin(), by_cell.end(), 0);
  const auto cell_of = [&](Rank rank) { return layout.cells[static_cast<std::size_t>(rank)]; };
  std::ranges::sort(by_cell, {}, cell_of);
  std::vector<std::vector<Rank>> nodes;
  std::int32_t line = -1;
  for (const Rank rank : by_cell) {
    const std::int32_t own = cell_of(rank) / layout.extents[0];
    if (own != line) nodes.emplace_back();
    line = own;
    nodes.back().push_back(rank);
  }
  return nodes;
}

std::string print(const Layout& layout) {
  if (layout.empty()) return "";
  const std::vector<std::int32_t> outermost_first(layout.extents.rbegin(), layout.extents.rend());
  const std::string extents = fmt::format("{}", fmt::join(outermost_first, "x"));
  if (layout.full() && in_order(layout.cells)) return extents;
  std::vector<std::int32_t> sizes;
  for (const auto& node : nodes_of(layout)) sizes.push_back(static_cast<std::int32_t>(node.size()));
  if (sizes.size() > 1 && of_node_sizes(sizes) == layout)
    return fmt::format("{}", fmt::join(sizes, ","));
  return fmt::format("{}:{}", extents, fmt::join(layout.cells, ","));
}

Result<Layout> parse_layout(std::string_view text) {
  const auto wrong = [&] {
    return make_error(Code::kInvalidArgument,
                      "'{}' is not a layout: 2x4 is 2 nodes of 4 ranks, 4x4x4 a grid, 4,3,4 are 3 "
                      "nodes of so many ranks, 2x4:0,1,4,5 names the cell of each rank",
                      text.substr(0, 80));
  };
  if (text.empty()) return Layout{};
  Layout layout;
  const std::size_t colon = text.find(':');
  const auto sizes = numbers(text, ',');
  if (sizes && sizes->size() > 1) {
    if (std::ranges::min(*sizes) < 1) return wrong();
    if (!cells_in(std::vector{std::ranges::max(*sizes), static_cast<std::int32_t>(sizes->size())}))
      return wrong();
    layout = of_node_sizes(*sizes);
  } else {
    auto extents = numbers(text.substr(0, colon), 'x');
    if (!extents || !cells_in(*extents)) return wrong();
    std::ranges::reverse(*extents);
    layout = Layout::grid(std::move(*extents));
  }
  if (colon != std::string_view::npos) {
    auto cells = numbers(text.substr(colon + 1), ',');
    if (!cells) return wrong();
    layout.cells = std::move(*cells);
  }
  TUTTI_TRY(check(layout, static_cast<std::int32_t>(layout.cells.size())));
  return layout;
}

}  // namespace tutti::ir
