// How near the ranks of a job are to each other, as far as algorithms need it: a grid in which
// ranks on one line of dimension 0 are nearest.
//
// Ranks on several hosts form a grid of two dimensions: ranks of a host by hosts. Ranks of a torus
// have its dimensions. Each rank has a cell of its own. Cells may be empty: hosts with 4 and 3
// ranks form a grid of 4 by 2 with one empty cell.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::ir {

/// Value. Without extents nothing is known: all pairs of ranks are alike.
struct Layout {
  std::vector<std::int32_t> extents;  ///< size of each dimension, nearest first; each at least 1
  std::vector<std::int32_t> cells;    ///< the cell of each rank; dimension 0 counts fastest

  /// Ranks with equal numbers are on one host. Hosts are numbered in the order of their first
  /// ranks, and ranks within a host in rank order. Empty if all ranks are on one host, or each on
  /// its own host: then all pairs of ranks are alike.
  static Layout of_hosts(std::span<const std::int32_t> host);
  /// A full grid with ranks in cell order. `extents` has the nearest dimension first.
  static Layout grid(std::vector<std::int32_t> extents);

  [[nodiscard]] bool empty() const { return extents.empty(); }
  /// Whether every cell has a rank.
  [[nodiscard]] bool full() const;

  friend bool operator==(const Layout&, const Layout&) = default;
};

/// kInvalidArgument unless the layout is empty, or gives each of `ranks` ranks its own cell in a
/// grid of at most 16 dimensions and 2^24 cells.
Status check(const Layout& layout, std::int32_t ranks);

/// The ranks on each non-empty line of dimension 0, in cell order: the nodes of a two-level view,
/// whatever the higher dimensions are. `layout` must be checked and not empty.
std::vector<std::vector<Rank>> nodes_of(const Layout& layout);

/// "2x4": a full grid in order, outermost dimension first. "4,3,4": nodes with these numbers of
/// ranks, in order. "2x4:0,1,2,4,5,6,7": any other grid, with the cell of each rank. "": an empty
/// layout.
std::string print(const Layout& layout);
/// Parses what print() wrote. kInvalidArgument says what is wrong with the text.
Result<Layout> parse_layout(std::string_view text);

}  // namespace tutti::ir
