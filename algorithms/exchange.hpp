// Shared by the exchanges: patterns without a root, in which every rank sends and receives one
// message per round.
//
// A gathering is a sequence of rounds. It begins with one block at each rank, its own, and ends
// with all blocks at every rank; each rank receives each block once. Run backwards, with every
// message reversed and arriving data added, it is a reduction: each contribution reaches the owner
// of its block once. So one list of rounds serves all_gather, reduce_scatter and all_reduce.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/member.hpp"

namespace tutti::algorithms {

/// One round of a gathering, as one rank sees it. Blocks are chunks of the output. Set k of a
/// message travels on lane k, so the sender's `sent` equals the receiver's `received`.
struct Exchange {
  Rank to = kNoRank;
  std::vector<ChunkSet> sent;
  Rank from = kNoRank;
  std::vector<ChunkSet> received;
};

/// Begins with the rank's block in `own` and ends with all blocks in the output. In the first round
/// the rank sends only its own block.
void gather_by(Member& me, std::span<const Exchange> rounds, ChunkSet own);

/// Runs the rounds of a gathering backwards. Begins with the blocks of the input and leaves the sum
/// of the rank's own block in `result`.
void reduce_by(Member& me, std::span<const Exchange> rounds, ChunkSet result);

/// Both: reduces each rank's own block into its place in the output, then gathers the blocks.
void all_reduce_by(Member& me, std::span<const Exchange> rounds);

/// The programs of an algorithm that reduces, gathers, or does both. Each direction takes ceil(log2
/// n) rounds, in which every rank sends n-1 blocks in total.
struct ReduceAndGather {
  RankProgram reduce_scatter, all_gather, all_reduce;
  bool even_ranks = false;  ///< needs an even number of ranks, or one rank
};
/// `name` and `summary` must outlive the algorithm.
ir::Algorithm algorithm_of(std::string_view name, std::string_view summary,
                           const ReduceAndGather& programs);

/// Ascending chunks as sets, split wherever the distance to the next chunk changes.
std::vector<ChunkSet> as_sets(ir::Space space, std::span<const std::uint32_t> ascending);

/// The partner of a rank in step s of Swing and of Bine, before wrapping around. It is rho(s)
/// places forward if the rank is even, and rho(s) places back if it is odd, with rho(s) = (1 -
/// (-2)^(s+1)) / 3 = 1, -1, 3, -5, 11, ... The relation is mutual. `rank` may be negative.
constexpr Rank swing_partner(Rank rank, std::uint32_t step) {
  const Rank power = static_cast<Rank>(std::uint32_t{2} << step);
  const Rank rho = (step % 2 == 0 ? 1 + power : 1 - power) / 3;
  return rank % 2 == 0 ? rank + rho : rank - rho;
}

/// An all-reduce of whole vectors, `in(0)` to `out(0)`. p is the largest power of two <= n. In each
/// of log2 p steps, every rank below p exchanges all it has with partner(rank, s, p). A rank >= p
/// sends its input to its proxy, the rank p below it, before these steps, and gets the result after
/// them.
void reduce_by_doubling(Member& me, Rank (*partner)(Rank rank, std::uint32_t step, Rank p));

}  // namespace tutti::algorithms
