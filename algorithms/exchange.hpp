// What the exchanges share: patterns by which every rank sends and receives one message a round,
// without a root.
//
// A gathering is a sequence of rounds that begins with one block at each rank, its own, and ends
// with all blocks everywhere; each rank receives each block once. Backwards, with every message
// turned around and what arrives added, it is a reduction: each contribution reaches the owner of
// its block once. So one list of rounds serves all_gather, reduce_scatter and all_reduce.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/member.hpp"

namespace tutti::algorithms {

/// One round of a gathering as one rank sees it. Blocks are chunks of the output; the k-th set of a
/// message travels on lane k, so the sender's `sent` and the receiver's `received` are equal.
struct Exchange {
  Rank to = kNoRank;
  std::vector<ChunkSet> sent;
  Rank from = kNoRank;
  std::vector<ChunkSet> received;
};

/// Begins with the rank's block in `own` and ends with all blocks of the output. In the first round
/// the rank sends its own block and nothing else.
void gather_by(Member& me, std::span<const Exchange> rounds, ChunkSet own);

/// Runs the rounds of a gathering backwards: begins with the blocks of the input and leaves the sum
/// of the rank's own block in `result`.
void reduce_by(Member& me, std::span<const Exchange> rounds, ChunkSet result);

/// Both: reduces each rank's own block into its place in the output and gathers the blocks.
void all_reduce_by(Member& me, std::span<const Exchange> rounds);

/// The programs of an algorithm that reduces, gathers, or does both, in ceil(log2 n) rounds each
/// way in which every rank sends n-1 blocks in all.
struct ReduceAndGather {
  RankProgram reduce_scatter, all_gather, all_reduce;
  bool even_ranks = false;  ///< it needs an even number of ranks, or one alone
};
/// `name` and `summary` must outlive it.
ir::Algorithm algorithm_of(std::string_view name, std::string_view summary,
                           const ReduceAndGather& programs);

/// Chunks in ascending order as sets, cut wherever the distance to the next chunk changes.
std::vector<ChunkSet> as_sets(ir::Space space, std::span<const std::uint32_t> ascending);

/// The partner of a rank in step s of Swing and of Bine, not yet wrapped: rho(s) further on where
/// the rank is even, as far back where it is odd, with rho(s) = (1 - (-2)^(s+1)) / 3 = 1, -1, 3,
/// -5, 11, ... Each is the other's partner. `rank` may be negative.
constexpr Rank swing_partner(Rank rank, std::uint32_t step) {
  const Rank power = static_cast<Rank>(std::uint32_t{2} << step);
  const Rank rho = (step % 2 == 0 ? 1 + power : 1 - power) / 3;
  return rank % 2 == 0 ? rank + rho : rank - rho;
}

/// An all-reduce of whole vectors, `in(0)` to `out(0)`. p is the largest power of two in n; in step
/// s of log2 p each rank below p exchanges all it has with partner(rank, s, p). A rank from p on
/// hands its input to its proxy, the rank p below it, before that and gets the result after it.
void reduce_by_doubling(Member& me, Rank (*partner)(Rank rank, std::uint32_t step, Rank p));

/// What it costs.
ir::Cost cost_of_doubling(const ir::Request& request);

}  // namespace tutti::algorithms
