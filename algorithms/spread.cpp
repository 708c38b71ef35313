// Spread: a broadcast in which every rank, including the root, sends one part of the vector to all.
//
// Words: the vector is cut into n chunks; the rank at position p from the root owns chunk p. In the
// first round the root sends each owner its chunk. In the second round each owner, including the
// root, sends its chunk to all ranks that lack it.
//
//   collective   rounds          bytes sent by the busiest rank
//   broadcast    2 (1 if n = 2)  2 S (n-1)/n, the root; (n-2)/n S, any other
//
// Wins: for large messages if ranks load and store each other's memory. Then an owner loads its
// chunk from the root and stores it to all ranks in one pass. So each byte is loaded once, and all
// ranks, including the root, store equally many bytes. With direct the root does nothing, and each
// of the others loads everything. On a wire, two_shot sends less, because its root owns nothing.
//
// Source: van de Geijn's scatter and all-gather (Thakur, Rabenseifner, Gropp, "Optimization of
// Collective Communication Operations in MPICH", 2005), with a share for the root.
#include "algorithms/algorithms.hpp"
#include "algorithms/member.hpp"

namespace tutti::algorithms {
namespace spread_parts {

void root(Member& me) {
  const auto chunks = static_cast<std::uint32_t>(me.ranks);
  for (Rank position = 1; position < me.ranks; ++position) {
    me.program.send(in(chunk_of(position)), me.away(position));
  }
  me.program.copy(in(0), out(0));
  send_to_all(me, out(0));
  me.program.copy(in(1, chunks - 1), out(1, chunks - 1));
}

void broadcast(Member& me) {
  if (me.is_root()) return root(me);
  const Rank position = me.from_root();
  const ChunkSet own = out(chunk_of(position));
  me.program.recv(own, me.request.root);
  for (Rank distance = 1; distance < me.ranks; ++distance) {
    const Rank peer = me.away(distance);
    if (peer != me.request.root) me.program.send(own, peer);
  }
  for (Rank distance = 1; distance < me.ranks; ++distance) {
    const Rank owner = (position - distance + me.ranks) % me.ranks;
    me.program.recv(out(chunk_of(owner)), me.away(-distance));
  }
}

bool supports(const ir::Request& request) {
  return well_formed(request) && request.collective == Collective::kBroadcast;
}

Result<ir::Schedule> generate(const ir::Request& request) {
  if (!supports(request)) return unsupported("spread", request);
  return generate(request, "spread", static_cast<std::uint32_t>(request.ranks), broadcast);
}

}  // namespace spread_parts

ir::Algorithm spread() {
  using namespace spread_parts;
  return {.name = "spread",
          .summary = "a broadcast whose root, too, hands one part to everyone",
          .supports = supports,
          .generate = generate};
}

}  // namespace tutti::algorithms
