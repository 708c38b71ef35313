// Neighbor exchange: an all-gather in which every rank communicates with its two neighbours only,
// in half the rounds of the ring.
//
// Words: ranks 2j and 2j+1 are pair j, and blocks travel in pairs. In round 0 the two ranks of a
// pair exchange their blocks. After that, an even rank exchanges with the neighbour before it in
// odd rounds, and with the one after it in even rounds. An odd rank does the opposite. Both send
// the pair of blocks that they received in the previous round (in round 1, their own pair). So a
// rank of pair j alternately receives the pairs at distances 1, 2, 3, ... on either side.
//
//   collective   rounds   bytes sent by each rank
//   all_gather   n/2      S (n-1)/n            n even
//
// Wins: against the ring, for blocks so small that rounds count, if only neighbours are connected
// by good links in both directions. It loses where algorithms with logarithmic rounds work
// (circulant, pat).
//
// Source: Chen, Zhang, Yuan, "Performance evaluation of allgather algorithms on Terascale Linux
// cluster with fast Ethernet" (HPC Asia 2005).
#include "algorithms/algorithms.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/member.hpp"

namespace tutti::algorithms {
namespace neighbor_exchange_parts {

/// The blocks of a pair; pairs are counted around the circle.
ChunkSet blocks_of_pair(Rank pair, Rank ranks) {
  return out(static_cast<std::uint32_t>(2 * wrap(pair, ranks / 2)), 2);
}

/// The pair whose blocks a rank receives in round 1 or later; in round 0, its own.
Rank pair_received(Rank rank, Rank round) {
  const Rank away = (round + 1) / 2;
  const bool backwards = (rank + round) % 2 != 0;
  return rank / 2 + (backwards ? -away : away);
}

void all_gather(Member& me) {
  const Rank in_pair = me.rank % 2 == 0 ? 1 : -1;
  const Rank partner = me.rank + in_pair;
  std::vector<Exchange> rounds = {{.to = partner,
                                   .sent = {out(static_cast<std::uint32_t>(me.rank))},
                                   .from = partner,
                                   .received = {out(static_cast<std::uint32_t>(partner))}}};
  for (Rank round = 1; round < me.ranks / 2; ++round) {
    const Rank peer = me.away(round % 2 == 0 ? in_pair : -in_pair);
    const Rank held = pair_received(me.rank, round - 1);
    rounds.push_back({.to = peer,
                      .sent = {blocks_of_pair(held, me.ranks)},
                      .from = peer,
                      .received = {blocks_of_pair(pair_received(me.rank, round), me.ranks)}});
  }
  gather_by(me, rounds, in(0));
}

bool supports(const ir::Request& request) {
  return well_formed(request) && request.collective == Collective::kAllGather &&
         (request.ranks == 1 || request.ranks % 2 == 0);
}

Result<ir::Schedule> generate(const ir::Request& request) {
  if (!supports(request)) return unsupported("neighbor_exchange", request);
  return generate(request, "neighbor_exchange", 1, all_gather);
}

}  // namespace neighbor_exchange_parts

ir::Algorithm neighbor_exchange() {
  using namespace neighbor_exchange_parts;
  return {.name = "neighbor_exchange",
          .summary = "pairs of blocks between neighbours: half of the ring's rounds, even n",
          .supports = supports,
          .generate = generate};
}

}  // namespace tutti::algorithms
