// Two-level algorithms, built from one-level algorithms: some run inside nodes, one between nodes.
#pragma once

#include <string_view>

#include "src/ir/algorithm.hpp"

namespace tutti::algorithms {

/// What runs on each level. Schedules inside a node must have one chunk per block.
struct Leaves {
  ir::Algorithm sums;     ///< inside a node: reduce_scatter, reduce
  ir::Algorithm moves;    ///< inside a node: all_gather, broadcast, all_to_all, scatter, gather
  ir::Algorithm between;  ///< between nodes: the collective itself
};

/// Every rank of a node carries a share of the data for other nodes. Supports the collectives that
/// `leaves.between` supports, except gather and scatter. `name` and `summary` must outlive the
/// algorithm.
ir::Algorithm hierarchical(std::string_view name, std::string_view summary, const Leaves& leaves);

/// One rank of each node communicates for it: all_reduce, broadcast, reduce.
ir::Algorithm leader(std::string_view name, std::string_view summary, const Leaves& leaves);

}  // namespace tutti::algorithms
