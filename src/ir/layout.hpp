// How the ranks of a job stand to each other, as far as an algorithm needs to know: a grid in which
// ranks that share a line of dimension 0 are nearest.
//
// Ranks of several hosts are a grid of two dimensions, ranks of a host by hosts; ranks of a torus
// have its dimensions. Every rank has a cell of its own. Cells may be empty: hosts of 4 and of 3
// ranks are a grid of 4 by 2 with one cell empty.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::ir {

/// Value. Empty (no extents): nothing is known, all pairs of ranks are alike.
struct Layout {
  std::vector<std::int32_t> extents;  ///< of each dimension, nearest first; each at least 1
  std::vector<std::int32_t> cells;    ///< of each rank: its cell; dimension 0 counts fastest

  /// Ranks with equal numbers are on one host. Hosts are counted in the order of their first
  /// ranks, and so are the ranks of a host. Empty where all ranks are on one host, or each on its
  /// own: then no two pairs of ranks differ.
  static Layout of_hosts(std::span<const std::int32_t> host);
  /// A full grid, ranks in the order of cells. `extents` nearest first.
  static Layout grid(std::vector<std::int32_t> extents);

  [[nodiscard]] bool empty() const { return extents.empty(); }
  /// Every cell has its rank.
  [[nodiscard]] bool full() const;

  friend bool operator==(const Layout&, const Layout&) = default;
};

/// kInvalidArgument unless the layout is empty, or gives each of `ranks` ranks a cell of its own
/// in a grid of at most 16 dimensions and 2^24 cells.
Status check(const Layout& layout, std::int32_t ranks);

/// The ranks on each line of dimension 0 that has any, in the order of cells: the nodes of two
/// levels, whatever lies above. `layout` must be checked and not empty.
std::vector<std::vector<Rank>> nodes_of(const Layout& layout);

/// "2x4" for a full grid in order, outermost dimension first; "4,3,4" for nodes of so many ranks,
/// in order; "2x4:0,1,2,4,5,6,7" names the cells of all others. "" for an empty layout.
std::string print(const Layout& layout);
/// What print() wrote. kInvalidArgument says what is wrong with the text.
Result<Layout> parse_layout(std::string_view text);

}  // namespace tutti::ir
