// Direct: every block goes straight from the rank that has it to each rank that needs it.
//
// Words: a block is the part of a buffer that belongs to one rank. No data is relayed or added, and
// all messages are independent. Each rank begins with its next neighbour around the circle, so no
// rank is the first target of all.
//
//   collective    rounds   bytes sent by the busiest rank
//   all_gather    1        S (n-1)/n
//   broadcast     1        (n-1) S
//   all_to_all    1        S (n-1)/n
//   gather        1        S/n
//   scatter       1        S (n-1)/n
//
// Wins: for all_gather, all_to_all, gather and scatter if all pairs of ranks are equally near,
// because no algorithm moves fewer bytes. For a broadcast of a few bytes, or between few ranks. All
// peers send at once; use pairwise or a ring on networks that cannot take that.
//
// Source: the linear algorithms of MPI libraries; Thakur et al., "Optimization of Collective
// Communication Operations in MPICH" (2005).
#include "algorithms/algorithms.hpp"
#include "algorithms/member.hpp"

namespace tutti::algorithms {
namespace direct_parts {

std::uint32_t block_of(Rank rank) { return static_cast<std::uint32_t>(rank); }

/// Sends to every other rank the block of the input that belongs to it.
void send_blocks(Member& me) {
  for (Rank distance = 1; distance < me.ranks; ++distance) {
    const Rank peer = me.away(distance);
    me.program.send(in(block_of(peer)), peer);
  }
}

/// Receives from every other rank the block of the output that belongs to it.
void recv_blocks(Member& me) {
  for (Rank distance = 1; distance < me.ranks; ++distance) {
    const Rank peer = me.away(-distance);
    me.program.recv(out(block_of(peer)), peer);
  }
}

void all_gather(Member& me) {
  send_to_all(me, in(0));
  me.program.copy(in(0), out(block_of(me.rank)));
  recv_blocks(me);
}

void broadcast(Member& me) {
  if (!me.is_root()) {
    me.program.recv(out(0), me.request.root);
    return;
  }
  send_to_all(me, in(0));
  me.program.copy(in(0), out(0));
}

void all_to_all(Member& me) {
  send_blocks(me);
  me.program.copy(in(block_of(me.rank)), out(block_of(me.rank)));
  recv_blocks(me);
}

void gather(Member& me) {
  if (!me.is_root()) {
    me.program.send(in(0), me.request.root);
    return;
  }
  me.program.copy(in(0), out(block_of(me.rank)));
  recv_blocks(me);
}

void scatter(Member& me) {
  if (!me.is_root()) {
    me.program.recv(out(0), me.request.root);
    return;
  }
  send_blocks(me);
  me.program.copy(in(block_of(me.rank)), out(0));
}

RankProgram program_of(Collective collective) {
  switch (collective) {
    case Collective::kAllGather:
      return all_gather;
    case Collective::kBroadcast:
      return broadcast;
    case Collective::kAllToAll:
      return all_to_all;
    case Collective::kGather:
      return gather;
    case Collective::kScatter:
      return scatter;
    default:
      return nullptr;
  }
}

bool supports(const ir::Request& request) {
  return well_formed(request) && program_of(request.collective) != nullptr;
}

Result<ir::Schedule> generate(const ir::Request& request) {
  if (!supports(request)) return unsupported("direct", request);
  return generate(request, "direct", 1, program_of(request.collective));
}

}  // namespace direct_parts

ir::Algorithm direct() {
  using namespace direct_parts;
  return {.name = "direct",
          .summary = "every block straight from where it is to where it is wanted, in one round",
          .supports = supports,
          .generate = generate};
}

}  // namespace tutti::algorithms
