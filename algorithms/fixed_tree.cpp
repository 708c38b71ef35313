// Fixed tree: sums whose order of addition depends only on the number of ranks.
//
// Words: the tree over ranks lo .. hi-1 is rank lo's contribution if that is one rank. Otherwise it
// is the tree over the first m of them plus the tree over the others, in this order, where m is the
// largest power of two below hi-lo: (x0 + x1) + (x2 + x3), ((x0 + x1) + (x2 + x3)) + x4. Every
// partial sum is rounded to the elements' type. Hosts, sizes, protocols and timing make no
// difference. Neighbours may also be added in pairs before the call: for even n, n/2 ranks that
// have each added one pair get the same bits as n ranks with one contribution each.
//
// Rank r owns part r of n parts of the vector, or block r of a reduce_scatter. Each rank sends part
// p of its input to owner p, which adds the contributions along the tree. Then the owner sends the
// sum to the ranks that need it.
//
//   collective       rounds   bytes sent by the busiest rank
//   all_reduce       2        2 S (n-1)/n
//   reduce_scatter   1        S (n-1)/n
//   reduce           2        S
//
// Wins: nowhere in time. It is for users who need float sums that can be repeated with the same
// contributions on another number of ranks or hosts.
//
// Source: pairwise summation, Higham, "Accuracy and Stability of Numerical Algorithms" (2002),
// section 4.2; the messages are those of two_shot.
#include "algorithms/algorithms.hpp"
#include "algorithms/member.hpp"

namespace tutti::algorithms {
namespace fixed_tree_parts {

/// The leaves of the lower of the two trees that a tree of `leaves`, at least 2, is made of.
std::size_t lower_leaves(std::size_t leaves) { return std::bit_floor(leaves - 1); }

/// The sum of contributions of neighbours, along their tree. Each partial sum has scratch of its
/// own: sums that went on into the same chunks would be one pass, which rounds once.
ChunkSet sum_of(Member& me, std::span<const ChunkSet> contributions) {
  if (contributions.size() == 1) return contributions.front();
  const std::size_t split = lower_leaves(contributions.size());
  const ChunkSet lower = sum_of(me, contributions.first(split));
  const ChunkSet upper = sum_of(me, contributions.subspan(split));
  const ChunkSet sum = me.program.scratch(lower);
  me.program.copy(lower, sum).reduce(upper, sum);
  return sum;
}

/// dst = the sum of one contribution of every rank. In place, `dst` is this rank's own.
void add_along_tree(Member& me, std::span<const ChunkSet> contributions, ChunkSet dst) {
  const std::size_t split = lower_leaves(contributions.size());
  const ChunkSet lower = sum_of(me, contributions.first(split));
  const ChunkSet upper = sum_of(me, contributions.subspan(split));
  const bool is_upper = split == static_cast<std::size_t>(me.rank) &&
                        contributions.size() - split == 1;  // this rank's own contribution is
  combine(me, {{lower, upper}, is_upper ? std::size_t{1} : 0}, dst, me.in_place());
}

void all_reduce(Member& me) {
  const auto contributions = exchange_contributions(me);
  const ChunkSet sum = out(chunk_of(me.rank));
  add_along_tree(me, contributions, sum);
  send_to_all(me, sum);
  receive_from_owners(me);
}

void reduce_scatter(Member& me) { add_along_tree(me, exchange_contributions(me), out(0)); }

void reduce(Member& me) {
  const auto contributions = exchange_contributions(me);
  if (!me.is_root()) {
    me.program.send(sum_of(me, contributions), me.request.root);
    return;
  }
  add_along_tree(me, contributions, out(chunk_of(me.rank)));
  receive_from_owners(me);
}

bool supports(const ir::Request& request) {
  return well_formed(request) && reduces(request.collective);
}

RankProgram program_of(Collective collective) {
  if (collective == Collective::kAllReduce) return all_reduce;
  return collective == Collective::kReduceScatter ? reduce_scatter : reduce;
}

Result<ir::Schedule> generate(const ir::Request& request) {
  if (!supports(request)) return unsupported("fixed_tree", request);
  const bool is_vector = request.collective != Collective::kReduceScatter;
  return generate(request, "fixed_tree", is_vector ? static_cast<std::uint32_t>(request.ranks) : 1,
                  program_of(request.collective));
}

}  // namespace fixed_tree_parts

ir::Algorithm fixed_tree() {
  using namespace fixed_tree_parts;
  return {.name = "fixed_tree",
          .summary = "added along one balanced tree over the ranks, whatever the hosts and sizes",
          .supports = supports,
          .generate = generate,
          .only_by_name = true};
}

}  // namespace tutti::algorithms
