// Chain: broadcast and reduce along a line of ranks with the root at one end.
//
// Words: rank r's next rank is r+1, around the circle from the root on. A vector is one message.
// The executor cuts it into slices, which follow each other along the chain and keep all its links
// busy.
//
//   collective           rounds   bytes sent by the busiest rank
//   broadcast, reduce    n-1      S
//
// Wins: for vectors of many slices, if each rank should send to one other rank only; and inside
// nodes as a part of larger schedules. Without slices it is n-1 messages one after the other; ring
// cuts the vector by itself. Sums are rounded once per hop, in the order of the chain.
//
// Source: the pipelines of MPI libraries; Pjesivac-Grbovic et al., "Performance analysis of MPI
// collective operations" (2007).
#include "algorithms/algorithms.hpp"
#include "algorithms/member.hpp"
#include "algorithms/tree.hpp"

namespace tutti::algorithms {
namespace chain_parts {

/// A chain is a tree whose every node has one child at most; `down` leads away from the root.
Rank above(const Member& me, Rank down) { return me.is_root() ? kNoRank : me.away(-down); }
Rank below(const Member& me, Rank down) {
  const Rank next = me.away(down);
  return next == me.request.root ? kNoRank : next;
}

void broadcast(Member& me) {
  const Rank next[] = {below(me, 1)};
  hand_down(me, {.parent = above(me, 1), .children = next}, me.is_root() ? in(0) : out(0));
  if (me.is_root()) me.program.copy(in(0), out(0));
}

/// Towards the root the ranks come in their order.
void reduce(Member& me) {
  const Rank previous[] = {below(me, -1)};
  sum_up(me, {.parent = above(me, -1), .children = previous}, in(0), out(0));
}

RankProgram program_of(Collective collective) {
  if (collective == Collective::kBroadcast) return broadcast;
  return collective == Collective::kReduce ? reduce : nullptr;
}

bool supports(const ir::Request& request) {
  return well_formed(request) && program_of(request.collective) != nullptr;
}

Result<ir::Schedule> generate(const ir::Request& request) {
  if (!supports(request)) return unsupported("chain", request);
  return generate(request, "chain", 1, program_of(request.collective));
}

}  // namespace chain_parts

ir::Algorithm chain() {
  using namespace chain_parts;
  return {.name = "chain",
          .summary = "one rank after the other, slices of the vector behind each other",
          .supports = supports,
          .generate = generate};
}

}  // namespace tutti::algorithms
