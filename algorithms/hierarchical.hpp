// Algorithms for two levels, made of algorithms for one: what runs inside nodes, what between them.
#pragma once

#include <string_view>

#include "src/ir/algorithm.hpp"

namespace tutti::algorithms {

/// What runs on each level. Inside a node, schedules must have one chunk per block.
struct Leaves {
  ir::Algorithm sums;     ///< inside a node: reduce_scatter, reduce
  ir::Algorithm moves;    ///< inside a node: all_gather, broadcast, all_to_all, scatter, gather
  ir::Algorithm between;  ///< between nodes: the collective itself
};

/// Every rank of a node has a share of what goes to other nodes. Supports the collectives that
/// `leaves.between` does, but for gather and scatter. `name` and `summary` must outlive it.
ir::Algorithm hierarchical(std::string_view name, std::string_view summary, const Leaves& leaves);

/// One rank of each node speaks for it: all_reduce, broadcast, reduce.
ir::Algorithm leader(std::string_view name, std::string_view summary, const Leaves& leaves);

}  // namespace tutti::algorithms
