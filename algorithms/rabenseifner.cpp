// Rabenseifner: a reduce-scatter by recursive halving, then an all-gather by recursive doubling.
//
// Words: p is the largest power of two <= n, and the vector is cut into p chunks. In step s of the
// halving, a rank's partner is the rank whose number differs in bit s. The two split the chunks
// they hold by bit s of the chunk number. Each keeps the half that agrees with its own number, and
// adds what the partner sends of that half. After log2 p steps rank r holds chunk r. The doubling
// runs the steps backwards. So large messages go to near ranks, and a rank always holds chunks at a
// fixed stride. Ranks p .. n-1 are extras. An extra gives its whole input to its proxy, the rank p
// below it, at the beginning, and gets the whole result at the end.
//
//   n              rounds          bytes sent by the busiest rank
//   power of two   2 log2 n        2 S (n-1)/n
//   other          2 log2 p + 2    2 S (p-1)/p + S, a proxy
//
// Wins: for medium and large messages on powers of two; otherwise the circulant all-reduce is
// better. One rank finishes each chunk, so all ranks get the same bits. Each step rounds once.
//
// Source: Rabenseifner, "Optimization of collective reduction operations" (ICCS 2004).
#include <bit>

#include "algorithms/algorithms.hpp"
#include "algorithms/member.hpp"

namespace tutti::algorithms {
namespace rabenseifner_parts {

std::uint32_t core_size(Rank ranks) { return std::bit_floor(static_cast<std::uint32_t>(ranks)); }

/// Every other chunk of `held`: the even ones or the odd ones.
ChunkSet half_of(ChunkSet held, std::uint32_t odd) {
  return {held.space, held.at(odd), held.count / 2, held.stride * 2};
}

/// The chunks of the output whose number agrees with `rank` in the bits below `stride`.
ChunkSet agreeing(std::uint32_t rank, std::uint32_t stride, std::uint32_t core) {
  return out(rank % stride, core / stride, stride);
}

/// From `held`, all chunks, to out(rank), complete.
void halve(Member& me, ChunkSet held, std::uint32_t core) {
  const auto rank = static_cast<std::uint32_t>(me.rank);
  for (std::uint32_t bit = 1; bit < core; bit *= 2) {
    const auto peer = static_cast<Rank>(rank ^ bit);
    const std::uint32_t odd = (rank & bit) != 0 ? 1 : 0;
    const ChunkSet kept = half_of(held, odd);
    const ChunkSet arrived = me.program.scratch(kept);
    me.program.send(half_of(held, 1 - odd), peer).recv(arrived, peer);
    if (kept.count == 1) {
      me.program.copy(kept, out(rank)).reduce(arrived, out(rank));
    } else {
      me.program.reduce(kept, arrived);
    }
    held = arrived;
  }
}

void regather(Member& me, std::uint32_t core) {
  const auto rank = static_cast<std::uint32_t>(me.rank);
  for (std::uint32_t bit = core / 2; bit > 0; bit /= 2) {
    const std::uint32_t peer = rank ^ bit;
    me.program.send(agreeing(rank, 2 * bit, core), static_cast<Rank>(peer));
    me.program.recv(agreeing(peer, 2 * bit, core), static_cast<Rank>(peer));
  }
}

void all_reduce(Member& me) {
  const std::uint32_t core = core_size(me.ranks);
  const auto core_ranks = static_cast<Rank>(core);
  if (me.rank >= core_ranks) {
    const Rank proxy = me.rank - core_ranks;
    me.program.send(in(0, core), proxy).recv(out(0, core), proxy);
    return;
  }
  const Rank extra = me.rank + core_ranks;
  ChunkSet held = in(0, core);
  if (extra < me.ranks) {
    held = me.program.scratch(in(0, core));
    me.program.recv(held, extra).reduce(in(0, core), held);
  }
  halve(me, held, core);
  regather(me, core);
  if (extra < me.ranks) me.program.send(out(0, core), extra);
}

bool supports(const ir::Request& request) {
  return well_formed(request) && request.collective == Collective::kAllReduce;
}

Result<ir::Schedule> generate(const ir::Request& request) {
  if (!supports(request)) return unsupported("rabenseifner", request);
  return generate(request, "rabenseifner", core_size(request.ranks), all_reduce);
}

}  // namespace rabenseifner_parts

ir::Algorithm rabenseifner() {
  using namespace rabenseifner_parts;
  return {.name = "rabenseifner",
          .summary = "halve the vector with partners at distance 1, 2, 4, ..., then double back",
          .supports = supports,
          .generate = generate};
}

}  // namespace tutti::algorithms
