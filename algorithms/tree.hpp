// A rank's part in a tree: sums flow up to the root, results flow down from it.
#pragma once

#include <span>
#include <vector>

#include "algorithms/member.hpp"

namespace tutti::algorithms {

/// One rank's place in a tree, and the lane of the tree's messages. A value; `children` must
/// outlive it.
struct Branch {
  Rank parent = kNoRank;           ///< kNoRank: this rank is the root
  std::span<const Rank> children;  ///< kNoRank means no child
  Lane lane = 0;
};

/// Adds the children's data, in their order, to `own` and sends the sum to the parent. The root
/// leaves it in `result`. Partial sums are in scratch, so `own` does not change.
void sum_up(Member& me, const Branch& branch, ChunkSet own, ChunkSet result);

/// Receives `result` from the parent, unless this rank is the root, which has it. Sends it to the
/// children in their order.
void hand_down(Member& me, const Branch& branch, ChunkSet result);

}  // namespace tutti::algorithms
