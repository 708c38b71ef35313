// Ring: ranks form a circle, and every message goes to the next rank.
//
// Words: chunk c starts at rank c and travels around once, adding each rank's contribution
// (reduce-scatter). Then the finished sum travels around once more (all-gather). Broadcast and
// reduce use the circle as a chain with the root at one end. The vector is cut into n chunks, so
// all links of the chain work at once.
//
//   collective             rounds     bytes sent by the busiest rank
//   all_reduce             2 (n-1)    2 S (n-1)/n
//   all_gather             n-1        S (n-1)/n
//   reduce_scatter         n-1        S (n-1)/n
//   broadcast, reduce      2 (n-1)    S
//
// A chain of n ranks delivers q chunks in n-1 + q-1 rounds of one message each; here q = n.
//
// Wins: for large messages on many ranks, and where neighbours have the best links. It sends the
// fewest bytes possible, and each rank communicates with two others only. Its rounds grow with n,
// so small messages lose. Sums are rounded once per hop, each chunk starting at another rank.
//
// Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations"
// (2009).
#include "algorithms/algorithms.hpp"
#include "algorithms/member.hpp"

namespace tutti::algorithms {
namespace ring_parts {

/// The chunk that has `hops` hops behind it when it reaches this rank, if chunk c starts at c.
std::uint32_t arriving(const Member& me, Rank hops) {
  return static_cast<std::uint32_t>(me.away(-hops));
}

/// Passes every chunk around once and adds this rank's input to it. Chunk c starts at rank c + 1
/// and is complete at rank c, in `sum`. Partial sums travel in scratch, so the input stays whole.
void reduce_around(Member& me, ChunkSet sum) {
  const Rank next = me.away(1);
  const Rank previous = me.away(-1);
  ChunkSet partial = in(arriving(me, 1));
  for (Rank hops = 2; hops < me.ranks; ++hops) {
    const ChunkSet own = in(arriving(me, hops));
    me.program.send(partial, next);
    partial = me.program.scratch(own);
    me.program.recv(partial, previous).reduce(own, partial);
  }
  me.program.send(partial, next);
  const ChunkSet own = in(arriving(me, me.ranks));
  const ChunkSet last = me.program.scratch(own);
  me.program.recv(last, previous);
  me.program.copy(own, sum);
  me.program.reduce(last, sum);
}

/// Passes every chunk of the output around once; each starts at its owner, chunk r at rank r.
void gather_around(Member& me, ChunkSet own) {
  ChunkSet held = own;
  for (Rank hops = 1; hops < me.ranks; ++hops) {
    me.program.send(held, me.away(1));
    held = out(arriving(me, hops));
    me.program.recv(held, me.away(-1));
  }
}

void all_reduce(Member& me) {
  const ChunkSet own = out(arriving(me, 0));
  reduce_around(me, own);
  gather_around(me, own);
}

void reduce_scatter(Member& me) { reduce_around(me, out(0)); }

void all_gather(Member& me) {
  gather_around(me, in(0));
  me.program.copy(in(0), out(arriving(me, 0)));
}

void broadcast(Member& me) {
  const auto chunks = static_cast<std::uint32_t>(me.ranks);
  const bool is_last = me.from_root() == me.ranks - 1;
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    if (!me.is_root()) me.program.recv(out(chunk), me.away(-1));
    if (!is_last) me.program.send(me.is_root() ? in(chunk) : out(chunk), me.away(1));
  }
  if (me.is_root()) me.program.copy(in(0, chunks), out(0, chunks));
}

/// The chain of a reduce ends at the root, so it begins at the rank after it.
void reduce(Member& me) {
  const bool is_first = me.from_root() == 1;
  for (std::uint32_t chunk = 0; chunk < static_cast<std::uint32_t>(me.ranks); ++chunk) {
    ChunkSet partial = in(chunk);
    if (!is_first) {
      partial = me.program.scratch(in(chunk));
      me.program.recv(partial, me.away(-1));
    }
    if (me.is_root()) {
      me.program.copy(in(chunk), out(chunk));
      me.program.reduce(partial, out(chunk));
      continue;
    }
    if (!is_first) me.program.reduce(in(chunk), partial);
    me.program.send(partial, me.away(1));
  }
}

RankProgram program_of(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return all_reduce;
    case Collective::kAllGather:
      return all_gather;
    case Collective::kReduceScatter:
      return reduce_scatter;
    case Collective::kBroadcast:
      return broadcast;
    case Collective::kReduce:
      return reduce;
    default:
      return nullptr;
  }
}

bool supports(const ir::Request& request) {
  return well_formed(request) && program_of(request.collective) != nullptr;
}

Result<ir::Schedule> generate(const ir::Request& request) {
  if (!supports(request)) return unsupported("ring", request);
  const bool blocks_are_chunks = request.collective == Collective::kAllGather ||
                                 request.collective == Collective::kReduceScatter;
  return generate(request, "ring",
                  blocks_are_chunks ? 1 : static_cast<std::uint32_t>(request.ranks),
                  program_of(request.collective));
}

}  // namespace ring_parts

ir::Algorithm ring() {
  using namespace ring_parts;
  return {.name = "ring",
          .summary = "chunks travel around a circle of ranks; fewest bytes, n-1 rounds a lap",
          .supports = supports,
          .generate = generate};
}

}  // namespace tutti::algorithms
