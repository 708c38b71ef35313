// One-shot: every rank sends its contribution straight to each rank that needs it, and each
// receiver adds up by itself.
//
// Words: a contribution is one rank's input to a sum. Contributions are added in rank order, 0 + 1
// + ... + n-1, with the rank's own at its place, so every rank computes the same bits.
//
//   collective       rounds   bytes sent by the busiest rank
//   all_reduce       1        (n-1) S
//   reduce_scatter   1        S (n-1)/n
//   reduce           1        S
//
// Wins: for small messages, where only the number of rounds counts. For reduce_scatter at every
// size, if all pairs of ranks are equally near. The all-reduce moves n/2 times the necessary bytes,
// so two_shot wins as soon as bytes matter.
//
// Source: the "all-pairs" or "one-shot" all-reduce of single-node libraries; Cowan et al.,
// MSCCLang (arXiv 2201.11840).
#include "algorithms/algorithms.hpp"
#include "algorithms/member.hpp"

namespace tutti::algorithms {
namespace one_shot_parts {

void all_reduce(Member& me) {
  send_to_all(me, in(0));
  const auto contributions = receive_contributions(me, in(0), in(0));
  combine_in_rank_order(me, contributions, out(0), me.in_place());
}

void reduce_scatter(Member& me) {
  combine_in_rank_order(me, exchange_contributions(me), out(0), me.in_place());
}

void reduce(Member& me) {
  if (!me.is_root()) {
    me.program.send(in(0), me.request.root);
    return;
  }
  const auto contributions = receive_contributions(me, in(0), in(0));
  combine_in_rank_order(me, contributions, out(0), me.in_place());
}

bool supports(const ir::Request& request) {
  return well_formed(request) && reduces(request.collective);
}

RankProgram program_of(Collective collective) {
  if (collective == Collective::kAllReduce) return all_reduce;
  return collective == Collective::kReduceScatter ? reduce_scatter : reduce;
}

Result<ir::Schedule> generate(const ir::Request& request) {
  if (!supports(request)) return unsupported("one_shot", request);
  return generate(request, "one_shot", 1, program_of(request.collective));
}

}  // namespace one_shot_parts

ir::Algorithm one_shot() {
  using namespace one_shot_parts;
  return {.name = "one_shot",
          .summary = "everyone sends to everyone who needs it; added in rank order on arrival",
          .supports = supports,
          .generate = generate};
}

}  // namespace tutti::algorithms
