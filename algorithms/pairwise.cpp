// Pairwise: an all-to-all in n-1 steps. In each step every rank sends one block and receives one.
//
// Words: in step t rank r sends the block for r+t and receives the block from r-t. The messages are
// those of direct, in another order. A step's receive comes before the next step's send. So at any
// time a rank has one partner in each direction, and no receiver is overloaded.
//
//   collective    rounds    bytes sent by each rank
//   all_to_all    n-1       S (n-1)/n
//
// Wins: for large blocks on networks where many senders to one receiver collide.
//
// Source: Thakur et al., "Optimization of Collective Communication Operations in MPICH" (2005),
// section on all-to-all, with r+t instead of the exclusive or, so that any n will do.
#include "algorithms/algorithms.hpp"
#include "algorithms/member.hpp"

namespace tutti::algorithms {
namespace pairwise_parts {

void all_to_all(Member& me) {
  const auto own = static_cast<std::uint32_t>(me.rank);
  me.program.copy(in(own), out(own));
  for (Rank step = 1; step < me.ranks; ++step) {
    const Rank to = me.away(step);
    const Rank from = me.away(-step);
    me.program.send(in(static_cast<std::uint32_t>(to)), to);
    me.program.recv(out(static_cast<std::uint32_t>(from)), from);
  }
}

bool supports(const ir::Request& request) {
  return well_formed(request) && request.collective == Collective::kAllToAll;
}

Result<ir::Schedule> generate(const ir::Request& request) {
  if (!supports(request)) return unsupported("pairwise", request);
  return generate(request, "pairwise", 1, all_to_all);
}

}  // namespace pairwise_parts

ir::Algorithm pairwise() {
  using namespace pairwise_parts;
  return {.name = "pairwise",
          .summary = "all-to-all in n-1 steps, one partner at a time in each direction",
          .supports = supports,
          .generate = generate};
}

}  // namespace tutti::algorithms
