// ForestColl: spanning trees that together use a network as well as any algorithm can.
//
//   Result<Forest> forest = grow(network);
//
// An all-gather over the forest sends each rank's data down the rank's own trees, a share of it
// along each, and takes the optimal time (optimum.hpp) when messages are long and stream. Read
// backwards the same trees reduce-scatter on the reversed network. algorithms/forest.hpp makes
// schedules of them.
//
// How: find the optimum; scale the capacities so that whole trees of weight 1 fit; replace
// switches by the links that they can provide (splitting.hpp); pack trees (packing.hpp); put the
// ways through the switches back in. All in exact arithmetic, and deterministic.
//
// Source: Zhao et al., "ForestColl: Throughput-optimal collective communications on heterogeneous
// network fabrics" (arXiv 2402.06787).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/topo/forest/network.hpp"
#include "src/topo/forest/optimum.hpp"
#include "src/topo/forest/splitting.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::topo::forest {

/// One message of a tree. Ranks count the network's compute nodes.
struct Hop {
  Rank from = 0;
  Rank to = 0;
  std::vector<Route> routes;  ///< of the tree's weight together; their paths hold vertices
  friend bool operator==(const Hop&, const Hop&) = default;
};

/// Reaches every rank once. A hop stands behind the one that reaches its sender.
struct Tree {
  Rank root = 0;
  std::int64_t weight = 0;  ///< carries this many of the root's trees_per_root shares
  std::vector<Hop> hops;
  friend bool operator==(const Tree&, const Tree&) = default;
};

struct Forest {
  std::int32_t ranks = 0;
  /// Shares into which each root's data is cut; the weights of a root's trees add up to it.
  std::int64_t trees_per_root = 0;
  std::vector<Rank> roots;  ///< ascending
  std::vector<Tree> trees;  ///< in the order of roots
  Ratio optimal_time;       ///< Optimum::time of the network
  Ratio time;               ///< that these trees take; more than the optimum only where limited

  friend bool operator==(const Forest&, const Forest&) = default;
};

struct GrowOptions {
  /// Unset: every rank is a root, as in an all-gather. Else one rank, as in a broadcast.
  std::optional<Rank> root;
  /// 0: as many trees as the optimum takes. Otherwise at most so many from each root (and not
  /// above 1024), which may cost time: capacities are then rounded down to whole trees.
  std::int64_t most_trees_per_root = 0;

  /// Hops straight from roots come before flat trees, and as few trees as can be pass the narrowest
  /// links: with two lanes (algorithms/forest.hpp) what is far comes early then, and what is near
  /// fills the end. Otherwise the trees are as flat as can be, which suits most networks better.
  bool direct_hops_first = false;

  friend bool operator==(const GrowOptions&, const GrowOptions&) = default;
};

/// kInvalidArgument for a network that check() or check_balance() refuses, or a root that is no
/// rank of it.
Result<Forest> grow(const Network& network, const GrowOptions& options = {});

/// Holds a forest against its network, knowing nothing of how it grew: every tree spans, every
/// route exists, no link carries more than fits in Forest::time. kInternal says what is wrong.
Status check(const Forest& forest, const Network& network);

/// Whether a forest can do the collective: all_gather, reduce_scatter, all_reduce, broadcast,
/// reduce.
bool carries(Collective collective);

/// Messages on the longest way from a root to a rank.
std::int32_t height(const Tree& tree);

}  // namespace tutti::topo::forest
