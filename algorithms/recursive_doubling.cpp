// Recursive doubling: in step s each rank exchanges all it has with the rank whose number differs
// in bit s. So what each rank knows doubles with every step.
//
// Words: p is the largest power of two <= n. Ranks p .. n-1 are extras: an extra gives its input to
// its proxy, the rank p below it, before the exchange, and gets the result after it. The all-gather
// supports no extras and needs n = p.
//
//   collective              rounds            bytes sent by the busiest rank
//   all_reduce, n = p       log2 n            S log2 n
//   all_reduce, otherwise   log2 p + 2        S (log2 p + 1), a proxy
//   all_gather, n = p       log2 n            S (n-1)/n
//
// Wins: for small all-reduces over more ranks than one_shot can serve. Both ends of an exchange add
// the same two sums, one as a+b and the other as b+a, so all ranks get the same bits. Each step
// rounds once. (Payloads of NaNs, and signs of zeros under min and max, may differ.)
//
// Source: Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in
// MPICH" (2005).
#include <bit>

#include "algorithms/algorithms.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/member.hpp"

namespace tutti::algorithms {
namespace recursive_doubling_parts {

void all_reduce(Member& me) {
  reduce_by_doubling(
      me, [](Rank rank, std::uint32_t step, Rank) { return rank ^ static_cast<Rank>(1U << step); });
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
  return request.collective == Collective::kAllGather &&
         std::has_single_bit(static_cast<std::uint32_t>(request.ranks));
}

Result<ir::Schedule> generate(const ir::Request& request) {
  if (!supports(request)) return unsupported("recursive_doubling", request);
  return generate(request, "recursive_doubling", 1,
                  request.collective == Collective::kAllReduce ? all_reduce : all_gather);
}

}  // namespace recursive_doubling_parts

ir::Algorithm recursive_doubling() {
  using namespace recursive_doubling_parts;
  return {.name = "recursive_doubling",
          .summary = "exchange everything with a partner at distance 1, 2, 4, ...",
          .supports = supports,
          .generate = generate};
}

}  // namespace tutti::algorithms
