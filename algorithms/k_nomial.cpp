// k-nomial trees: the binomial tree (k = 2) and its wider relatives.
//
// Words: a rank's place is its distance after the root, written in base k. To get the parent's
// place, clear the lowest digit that is not 0. So place v, whose lowest nonzero digit counts k^i,
// has the children v + j k^m for m < i and 0 < j < k. The subtree of v is the places v .. v + k^i -
// 1. Broadcast and scatter serve far children first, because those have the largest subtrees.
// Reduce and gather receive from near children first, because those are ready first.
//
//   collective   rounds   bytes sent by the busiest rank
//   broadcast    h        S c, the root
//   reduce       h        S
//   gather       h        S b/n
//   scatter      h        S (n-1)/n, the root
//
// Rounds count messages that depend on one another. h is the number of values 1, 11, 111, ... in
// base k that are below n (floor(log2 n) for k = 2). c is the number of the root's children: the
// places below n with one nonzero digit (ceil(log2 n) for k = 2). b is the most ranks in the
// subtree of any child.
//
// Wins: broadcast and reduce of small messages among ranks at similar distances. Gather and scatter
// of small blocks on many ranks: the root has a few messages instead of n-1. A wider tree is
// flatter, but its root sends more; it wins if a rank can have several messages under way at once.
// Partial sums combine adjacent places. A sum is rounded once per child.
//
// Source: Chan, Heimlich, Purkayastha, van de Geijn, "Collective communication: theory, practice,
// and experience" (2007), section 4; radix k as in UCC's and MPICH's k-nomial trees.
#include <algorithm>

#include "algorithms/algorithms.hpp"
#include "algorithms/member.hpp"
#include "algorithms/tree.hpp"

namespace tutti::algorithms {
namespace k_nomial_parts {

/// One rank's place in the tree of `radix` over `ranks` places.
struct Place {
  Rank number = 0;        ///< ranks after the root
  Rank parent = kNoRank;  ///< a place; kNoRank at the root
  Rank below = 0;         ///< places number .. number + below - 1 hang below it, itself included
  std::vector<Rank> children;  ///< places, near ones first
};

Place place_of(Rank number, Rank ranks, Rank radix) {
  Place place{.number = number, .children = {}};
  Rank digit_counts = 1;
  while (digit_counts < ranks && number % (digit_counts * radix) == 0) {
    for (Rank digit = 1; digit < radix; ++digit) {
      const Rank child = number + digit * digit_counts;
      if (child < ranks) place.children.push_back(child);
    }
    digit_counts *= radix;
  }
  place.below = std::min(digit_counts, ranks - number);
  if (number != 0) place.parent = number - number % (digit_counts * radix);
  return place;
}

Rank rank_at(const Member& me, Rank place) { return (me.request.root + place) % me.ranks; }

std::vector<Rank> ranks_at(const Member& me, std::vector<Rank> places) {
  for (Rank& place : places) place = rank_at(me, place);
  return places;
}

Rank parent_of(const Member& me, const Place& place) {
  return place.parent == kNoRank ? kNoRank : rank_at(me, place.parent);
}

template <Rank kRadix>
void broadcast(Member& me) {
  const Place place = place_of(me.from_root(), me.ranks, kRadix);
  std::vector<Rank> children = ranks_at(me, place.children);
  std::ranges::reverse(children);
  hand_down(me, {.parent = parent_of(me, place), .children = children},
            me.is_root() ? in(0) : out(0));
  if (me.is_root()) me.program.copy(in(0), out(0));
}

template <Rank kRadix>
void reduce(Member& me) {
  const Place place = place_of(me.from_root(), me.ranks, kRadix);
  const std::vector<Rank> children = ranks_at(me, place.children);
  sum_up(me, {.parent = parent_of(me, place), .children = children}, in(0), out(0));
}

/// The blocks of the places below a child of this rank's `place`. At the root they lie where the
/// collective wants them, and may wrap from the last block to block 0; at other ranks they lie in
/// `held`, in the order of places. Both ends of a message cut it where the root would.
std::vector<ChunkSet> blocks_of(const Member& me, const Place& child, const Place& place,
                                ChunkSet held) {
  std::vector<ChunkSet> parts =
      parts_of({held.space, rank_at(me, child.number), child.below}, me.ranks);
  if (me.is_root()) return parts;
  std::uint32_t next = held.first + static_cast<std::uint32_t>(child.number - place.number);
  for (ChunkSet& part : parts) {
    part.first = next;
    next += part.count;
  }
  return parts;
}

/// Where a rank that is not the root keeps the blocks of all below it. A leaf needs no place for
/// them: its own block is all there is.
ChunkSet held_below(Member& me, const Place& place, ChunkSet own) {
  if (place.below == 1) return own;
  ChunkSet held = me.program.scratch(own);
  for (Rank other = 1; other < place.below; ++other) me.program.scratch(own);
  held.count = static_cast<std::uint32_t>(place.below);
  return held;
}

/// The first of the blocks held: this rank's own.
ChunkSet own_of(ChunkSet held) { return {held.space, held.first, 1, 1}; }

template <Rank kRadix>
void gather(Member& me) {
  const Place place = place_of(me.from_root(), me.ranks, kRadix);
  const auto own_block = static_cast<std::uint32_t>(me.rank);
  const ChunkSet held = me.is_root() ? out(0) : held_below(me, place, in(0));
  me.program.copy(in(0), me.is_root() ? out(own_block) : own_of(held));
  for (const Rank number : place.children) {
    const Place child = place_of(number, me.ranks, kRadix);
    recv_sets(me, blocks_of(me, child, place, held), rank_at(me, number));
  }
  if (!me.is_root()) send_sets(me, blocks_of(me, place, place, held), parent_of(me, place));
}

template <Rank kRadix>
void scatter(Member& me) {
  const Place place = place_of(me.from_root(), me.ranks, kRadix);
  const auto own_block = static_cast<std::uint32_t>(me.rank);
  const ChunkSet held = me.is_root() ? in(0) : held_below(me, place, out(0));
  if (!me.is_root()) recv_sets(me, blocks_of(me, place, place, held), parent_of(me, place));
  for (std::size_t i = place.children.size(); i-- > 0;) {
    const Place child = place_of(place.children[i], me.ranks, kRadix);
    send_sets(me, blocks_of(me, child, place, held), rank_at(me, child.number));
  }
  me.program.copy(me.is_root() ? in(own_block) : own_of(held), out(0));
}

template <Rank kRadix>
RankProgram program_of(Collective collective) {
  switch (collective) {
    case Collective::kBroadcast:
      return broadcast<kRadix>;
    case Collective::kReduce:
      return reduce<kRadix>;
    case Collective::kGather:
      return gather<kRadix>;
    case Collective::kScatter:
      return scatter<kRadix>;
    default:
      return nullptr;
  }
}

template <Rank kRadix>
constexpr std::string_view kName = kRadix == 2 ? "binomial" : "k_nomial_4";

template <Rank kRadix>
bool supports(const ir::Request& request) {
  return well_formed(request) && program_of<kRadix>(request.collective) != nullptr;
}

template <Rank kRadix>
Result<ir::Schedule> generate(const ir::Request& request) {
  if (!supports<kRadix>(request)) return unsupported(kName<kRadix>, request);
  return generate(request, kName<kRadix>, 1, program_of<kRadix>(request.collective));
}

template <Rank kRadix>
ir::Algorithm k_nomial(std::string_view summary) {
  return {.name = kName<kRadix>,
          .summary = summary,
          .supports = supports<kRadix>,
          .generate = generate<kRadix>};
}

}  // namespace k_nomial_parts

ir::Algorithm binomial() {
  using namespace k_nomial_parts;
  return k_nomial<2>("one tree that doubles the ranks served every round");
}

ir::Algorithm k_nomial_4() {
  using namespace k_nomial_parts;
  return k_nomial<4>("a flatter tree: each rank serves up to three others at once and level");
}

}  // namespace tutti::algorithms
