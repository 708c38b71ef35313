// Swing: exchanges with partners on alternating sides, so messages stay near on a ring or a torus.
//
// Words: in step s a rank's partner is rho(s) forward if the rank is even, and rho(s) back if it is
// odd, with rho(s) = 1, -1, 3, -5, 11, ... (swing_partner). After L = ceil(log2 n) steps every rank
// has reached every other. The hops are two thirds as long as those of recursive doubling. The
// all-gather takes the steps backwards: L-1, ..., 1, 0. In each, a rank gets the blocks that its
// partner has and it lacks. For a power of two these are n/2^(s+1) blocks. For other even n some
// blocks would arrive on two paths; only the first arrival counts. Rotating the circle by two ranks
// changes nothing, and neither does reversing it with even and odd exchanged. So when a block
// arrives depends only on the distance from its owner: forwards from even owners, backwards from
// odd owners. The reduce-scatter is the all-gather backwards.
//
//   algorithm       collective       rounds         bytes sent by the busiest rank
//   swing           reduce_scatter   L              S (n-1)/n                           n even
//                   all_gather       L              S (n-1)/n                           n even
//                   all_reduce       2 L            2 S (n-1)/n                         n even
//   swing_latency   all_reduce, as recursive_doubling: log2 n rounds of S; other n by proxies
//
// Wins: on rings and tori, for messages too small for the ring algorithm's n-1 rounds. On networks
// where distance does not matter, circulant does the same for every n. One rank finishes each
// block, so all ranks get the same bits. Each step rounds once.
//
// swing_latency exchanges whole vectors and takes the steps backwards, too. In the paper's order, 0
// first, ranks would add the same numbers by differently shaped trees (rank 0 as (01+67)+(23+45),
// rank 1 as (01+23)+(67+45)) and get different bits. Backwards, ranks that hold the sum of the same
// ranks have added them by the same tree. Such ranks have numbers that agree modulo a power of two:
// first evens with evens and odds with odds.
//
// Source: De Sensi et al., "Swing: Short-cutting Rings for Higher Bandwidth Allreduce" (NSDI 2024).
#include "algorithms/algorithms.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/member.hpp"

namespace tutti::algorithms {
namespace swing_parts {

std::uint32_t steps_of(Rank ranks) { return ceil_log2(static_cast<std::uint32_t>(ranks)); }

Rank partner_of(Rank rank, std::uint32_t step, Rank ranks) {
  return wrap(swing_partner(rank, step), ranks);
}

/// arrival[d]: the step of the all-gather in which an even rank's block reaches the rank d further
/// on; L for d = 0.
std::vector<std::uint32_t> arrivals(Rank ranks) {
  constexpr std::uint32_t kNever = ~0U;
  std::vector<std::uint32_t> arrival(static_cast<std::size_t>(ranks), kNever);
  arrival[0] = steps_of(ranks);
  std::vector<Rank> reached = {0};
  for (std::uint32_t step = steps_of(ranks); step-- > 0;) {
    const std::size_t senders = reached.size();
    for (std::size_t i = 0; i < senders; ++i) {
      const Rank next = partner_of(reached[i], step, ranks);
      if (arrival[static_cast<std::size_t>(next)] != kNever) continue;
      arrival[static_cast<std::size_t>(next)] = step;
      reached.push_back(next);
    }
  }
  return arrival;
}

/// The blocks that reach `rank` in `step`: the even ones, then the odd ones.
std::vector<ChunkSet> received_by(Rank rank, std::uint32_t step,
                                  const std::vector<std::uint32_t>& arrival) {
  const auto ranks = static_cast<Rank>(arrival.size());
  std::vector<ChunkSet> sets;
  for (const Rank odd : {0, 1}) {
    std::vector<std::uint32_t> blocks;
    for (Rank block = odd; block < ranks; block += 2) {
      const Rank distance = wrap(odd != 0 ? block - rank : rank - block, ranks);
      if (arrival[static_cast<std::size_t>(distance)] != step) continue;
      blocks.push_back(static_cast<std::uint32_t>(block));
    }
    for (const ChunkSet set : as_sets(ir::Space::kOutput, blocks)) sets.push_back(set);
  }
  return sets;
}

/// The rounds of the all-gather.
std::vector<Exchange> rounds_of(const Member& me) {
  const std::vector<std::uint32_t> arrival = arrivals(me.ranks);
  std::vector<Exchange> rounds;
  for (std::uint32_t step = steps_of(me.ranks); step-- > 0;) {
    const Rank partner = partner_of(me.rank, step, me.ranks);
    rounds.push_back({.to = partner,
                      .sent = received_by(partner, step, arrival),
                      .from = partner,
                      .received = received_by(me.rank, step, arrival)});
  }
  return rounds;
}

void all_reduce_of_whole_vectors(Member& me) {
  reduce_by_doubling(me, [](Rank rank, std::uint32_t round, Rank p) {
    return partner_of(rank, steps_of(p) - 1 - round, p);
  });
}

bool supports_latency(const ir::Request& request) {
  return well_formed(request) && request.collective == Collective::kAllReduce;
}

Result<ir::Schedule> generate_latency(const ir::Request& request) {
  if (!supports_latency(request)) return unsupported("swing_latency", request);
  return generate(request, "swing_latency", 1, all_reduce_of_whole_vectors);
}

}  // namespace swing_parts

ir::Algorithm swing() {
  using namespace swing_parts;
  return algorithm_of("swing",
                      "partners at distance 1, -1, 3, -5, 11, ...: short hops on rings, even n",
                      {.reduce_scatter = [](Member& me) { reduce_by(me, rounds_of(me), out(0)); },
                       .all_gather = [](Member& me) { gather_by(me, rounds_of(me), in(0)); },
                       .all_reduce = [](Member& me) { all_reduce_by(me, rounds_of(me)); },
                       .even_ranks = true});
}

ir::Algorithm swing_latency() {
  using namespace swing_parts;
  return {.name = "swing_latency",
          .summary = "exchange everything with swing's partners: fewest rounds, short hops",
          .supports = supports_latency,
          .generate = generate_latency};
}

}  // namespace tutti::algorithms
