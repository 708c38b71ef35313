#include "algorithms/tree.hpp"

namespace tutti::algorithms {

void sum_up(Member& me, const Branch& branch, ChunkSet own, ChunkSet result) {
  const bool is_root = branch.parent == kNoRank;
  ChunkSet sum = own;
  for (const Rank child : branch.children) {
    if (child == kNoRank) continue;
    const ChunkSet arrived = me.program.scratch(own);
    me.program.recv(arrived, child, branch.lane);
    if (is_root) {
      me.program.copy(sum, result).reduce(arrived, result);
      sum = result;
    } else if (sum == own) {
      me.program.reduce(own, arrived);
      sum = arrived;
    } else {
      me.program.reduce(arrived, sum);
    }
  }
  if (!is_root) me.program.send(sum, branch.parent, branch.lane);
}

void hand_down(Member& me, const Branch& branch, ChunkSet result) {
  if (branch.parent != kNoRank) me.program.recv(result, branch.parent, branch.lane);
  for (const Rank child : branch.children) {
    if (child != kNoRank) me.program.send(result, child, branch.lane);
  }
}

}  // namespace tutti::algorithms
