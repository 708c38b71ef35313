// Recursive doubling: in step s ranks exchange all they have with the rank whose number differs in
// bit s, so what each knows doubles every step.
//
// Words: p is the largest power of two in n. Ranks p .. n-1 are extras: an extra hands its input to
// its proxy, the rank p below it, before the exchange and gets the result after it. The all-gather
// has no use for extras and needs n = p.
//
//   collective              rounds            bytes sent by the busiest rank
//   all_reduce, n = p       log2 n            S log2 n
//   all_reduce, otherwise   log2 p + 2        S (log2 p + 1), a proxy
//   all_gather, n = p       log2 n            S (n-1)/n
//
// Wins: for small all-reduces over more ranks than one_shot can serve. Both ends of an exchange add
// the same two sums, one as a+b and the other as b+a, so all ranks get the same bits; each step
// rounds once. (Payloads of NaNs, and signs of zeros under min and max, may differ.)
//
// Source: Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in
// MPICH" (2005).
#include <bit>

#include "algorithms/algorithms.hpp"
#include "algorithms/member.hpp"

namespace tutti::algorithms {
namespace {

Rank core_size(Rank ranks) {
  return static_cast<Rank>(std::bit_floor(static_cast<std::uint32_t>(ranks)));
}

/// The sum so far of a rank: its input at first, then the output.
struct Sum {
  ChunkSet where = in(0);
  ChunkSet arrived;  // scratch

  void add_from(Member& me, Rank peer) {
    me.program.recv(arrived, peer).copy(where, out(0)).reduce(arrived, out(0));
    where = out(0);
  }
};

void all_reduce(Member& me) {
  const Rank core = core_size(me.ranks);
  if (me.rank >= core) {
    const Rank proxy = me.rank - core;
    me.program.send(in(0), proxy).recv(out(0), proxy);
    return;
  }
  const Rank extra = me.rank + core;
  Sum sum{.arrived = me.program.scratch(out(0))};
  if (extra < me.ranks) sum.add_from(me, extra);
  for (Rank bit = 1; bit < core; bit *= 2) {
    const Rank peer = me.rank ^ bit;
    me.program.send(sum.where, peer);
    sum.add_from(me, peer);
  }
  if (extra < me.ranks) me.program.send(out(0), extra);
}

void all_gather(Member& me) {
  const auto first_block = [](Rank rank, Rank blocks) {
    return static_cast<std::uint32_t>(rank - rank % blocks);
  };
  me.program.copy(in(0), out(first_block(me.rank, 1)));
  for (Rank blocks = 1; blocks < me.ranks; blocks *= 2) {
    const Rank peer = me.rank ^ blocks;
    const auto count = static_cast<std::uint32_t>(blocks);
    me.program.send(out(first_block(me.rank, blocks), count), peer);
    me.program.recv(out(first_block(peer, blocks), count), peer);
  }
}

bool supports(const ir::Request& request) {
  if (!well_formed(request)) return false;
  if (request.collective == Collective::kAllReduce) return true;
  return request.collective == Collective::kAllGather && core_size(request.ranks) == request.ranks;
}

Result<ir::Schedule> generate(const ir::Request& request) {
  if (!supports(request)) return unsupported("recursive_doubling", request);
  return generate(request, "recursive_doubling", 1,
                  request.collective == Collective::kAllReduce ? all_reduce : all_gather);
}

ir::Cost cost(const ir::Request& request) {
  const auto n = static_cast<std::uint32_t>(request.ranks);
  const std::uint32_t steps = ceil_log2(std::bit_floor(n));
  if (request.collective == Collective::kAllGather) return cost_of(request, steps, n - 1, n);
  if (std::has_single_bit(n)) return cost_of(request, steps, steps, 1);
  return cost_of(request, steps + 2, steps + 1, 1);
}

}  // namespace

ir::Algorithm recursive_doubling() {
  return {.name = "recursive_doubling",
          .summary = "exchange everything with a partner at distance 1, 2, 4, ...",
          .supports = supports,
          .generate = generate,
          .cost = cost};
}

}  // namespace tutti::algorithms
