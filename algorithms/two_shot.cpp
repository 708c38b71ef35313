// Two-shot: the vector is cut into parts, each part has one owner, and every message goes straight
// to where it is needed.
//
// Words: the vector is cut into n chunks; rank r owns chunk r. In the first round each rank sends
// chunk p of its input to owner p, which adds the n contributions in rank order. In the second
// round the owner sends the sum to the ranks that need it. Only its owner rounds an element, so all
// ranks get the same bits. The root of a broadcast has everything and needs no part of its own. So
// a broadcast cuts the vector into n-1 chunks, one for each other rank.
//
//   collective   rounds          bytes sent by the busiest rank
//   all_reduce   2               2 S (n-1)/n
//   reduce       2               S
//   broadcast    2 (1 if n = 2)  S
//
// Wins: for medium and large messages if every pair of ranks is equally near (one host): the bytes
// of a ring in two rounds. With many ranks, the 2(n-1) messages per rank become the limit.
//
// Source: Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in
// MPICH" (2005), scatter + all-gather; MSCCLang's all-pairs all-reduce (arXiv 2201.11840).
#include "algorithms/algorithms.hpp"
#include "algorithms/member.hpp"

namespace tutti::algorithms {
namespace two_shot_parts {

void all_reduce(Member& me) {
  const auto contributions = exchange_contributions(me);
  const ChunkSet sum = out(chunk_of(me.rank));
  combine_in_rank_order(me, contributions, sum, me.in_place());
  send_to_all(me, sum);
  receive_from_owners(me);
}

void reduce(Member& me) {
  const auto contributions = exchange_contributions(me);
  if (!me.is_root()) {
    const ChunkSet sum = me.program.scratch(in(chunk_of(me.rank)));
    combine_in_rank_order(me, contributions, sum, false);
    me.program.send(sum, me.request.root);
    return;
  }
  combine_in_rank_order(me, contributions, out(chunk_of(me.rank)), me.in_place());
  receive_from_owners(me);
}

/// The chunk that the rank at `position` from the root relays.
ChunkSet relayed(Rank position) { return out(static_cast<std::uint32_t>(position - 1)); }

void broadcast(Member& me) {
  const auto chunks = static_cast<std::uint32_t>(me.ranks - 1);
  if (me.is_root()) {
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
      me.program.send(in(chunk), me.away(static_cast<Rank>(chunk) + 1));
    }
    me.program.copy(in(0, chunks), out(0, chunks));
    return;
  }
  const Rank position = me.from_root();
  me.program.recv(relayed(position), me.request.root);
  for (Rank distance = 1; distance < me.ranks; ++distance) {
    const Rank peer = me.away(distance);
    if (peer != me.request.root) me.program.send(relayed(position), peer);
  }
  for (Rank distance = 1; distance < me.ranks; ++distance) {
    const Rank peer = me.away(-distance);
    if (peer == me.request.root) continue;
    me.program.recv(relayed((position - distance + me.ranks) % me.ranks), peer);
  }
}

bool supports(const ir::Request& request) {
  return well_formed(request) && (request.collective == Collective::kAllReduce ||
                                  request.collective == Collective::kReduce ||
                                  request.collective == Collective::kBroadcast);
}

RankProgram program_of(Collective collective) {
  if (collective == Collective::kAllReduce) return all_reduce;
  return collective == Collective::kReduce ? reduce : broadcast;
}

Result<ir::Schedule> generate(const ir::Request& request) {
  if (!supports(request)) return unsupported("two_shot", request);
  const auto n = static_cast<std::uint32_t>(request.ranks);
  const bool root_owns_nothing = request.collective == Collective::kBroadcast && n > 1;
  return generate(request, "two_shot", root_owns_nothing ? n - 1 : n,
                  program_of(request.collective));
}

}  // namespace two_shot_parts

ir::Algorithm two_shot() {
  using namespace two_shot_parts;
  return {.name = "two_shot",
          .summary = "each part has one owner, who adds in rank order and hands out the sum",
          .supports = supports,
          .generate = generate};
}

}  // namespace tutti::algorithms
