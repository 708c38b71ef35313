// PAT, parallel aggregated trees: reduce-scatter, all-gather and all-reduce in logarithmic rounds.
// Large messages travel short distances.
//
// Words: in the all-gather, block b travels down a binomial tree from rank b to the ranks after it,
// far distances first. Rounds have distances d = 2^(L-1), ..., 2, 1. At the start of such a round,
// rank r holds the blocks r, r - 2d, r - 4d, ... of ranks less than n before it. It sends those
// less than n - d before it to rank r + d. All n trees run at once. Blocks that go the same way in
// a round are one message (two if they wrap around from block 0 to the last block). The
// reduce-scatter is the same backwards.
//
//   collective       rounds   bytes sent by each rank
//   reduce_scatter   L        S (n-1)/n
//   all_gather       L        S (n-1)/n                                  with L = ceil(log2 n)
//   all_reduce       2 L      2 S (n-1)/n
//
// Wins: if distance is expensive. The round of distance n/2 moves one block and the round of
// distance 1 moves n/2 blocks, whereas circulant and bruck move most data farthest. If distance
// does not matter, circulant has the same rounds and bytes, and more of its messages are
// contiguous. One rank finishes each block, so all ranks get the same bits. Each round rounds once.
//
// Source: Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale"
// (arXiv 2506.20252), with full aggregation. The paper also sends fewer blocks at a time to bound
// its buffers; here lowering cuts messages into slices instead.
#include <algorithm>

#include "algorithms/algorithms.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/member.hpp"

namespace tutti::algorithms {
namespace pat_parts {

/// What rank `sender` sends in the round of `distance`.
std::vector<ChunkSet> blocks_sent(Rank sender, Rank distance, Rank ranks) {
  const Rank stride = 2 * distance;
  const Rank count = (ranks - distance + stride - 1) / stride;
  const Rank before_wrap = std::min(count, sender / stride + 1);
  std::vector<ChunkSet> sets;
  const auto append = [&](Rank last, Rank blocks) {  // last, last - stride, ...
    if (blocks == 0) return;
    sets.push_back(out(static_cast<std::uint32_t>(last - (blocks - 1) * stride),
                       static_cast<std::uint32_t>(blocks), static_cast<std::uint32_t>(stride)));
  };
  append(sender, before_wrap);
  append(sender - before_wrap * stride + ranks, count - before_wrap);
  return sets;
}

/// The rounds of the all-gather.
std::vector<Exchange> rounds_of(const Member& me) {
  std::vector<Exchange> rounds;
  for (std::uint32_t round = ceil_log2(static_cast<std::uint32_t>(me.ranks)); round-- > 0;) {
    const auto distance = static_cast<Rank>(1U << round);
    const Rank from = me.away(-distance);
    rounds.push_back({.to = me.away(distance),
                      .sent = blocks_sent(me.rank, distance, me.ranks),
                      .from = from,
                      .received = blocks_sent(from, distance, me.ranks)});
  }
  return rounds;
}

}  // namespace pat_parts

ir::Algorithm pat() {
  using namespace pat_parts;
  return algorithm_of("pat", "all binomial trees at once, far hops first: large messages stay near",
                      {.reduce_scatter = [](Member& me) { reduce_by(me, rounds_of(me), out(0)); },
                       .all_gather = [](Member& me) { gather_by(me, rounds_of(me), in(0)); },
                       .all_reduce = [](Member& me) { all_reduce_by(me, rounds_of(me)); }});
}

}  // namespace tutti::algorithms
