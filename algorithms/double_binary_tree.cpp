// Double binary tree: two trees over the same ranks. Each carries half of the vector, and hardly
// any rank is an inner node of both.
//
// Words: the tree over n nodes hangs from node 0, whose only child is the largest power of two
// below n. A node r > 0 with lowest set bit b has its children at r - b/2 and r + b/2; if the
// latter is beyond n, the step is halved until it fits. Odd numbers are leaves. The second tree is
// the first one mirrored (n even) or shifted by one (n odd), which turns leaves into inner nodes.
// Tree t carries chunk t of two: sums go up to its root and come back down. Broadcast and reduce
// put the collective's root above both trees, which then span the other n-1 ranks.
//
//   collective           rounds                      bytes sent by the busiest rank
//   all_reduce           2 ceil(log2 n)              2 S (n = 2: S, n = 3: 3/2 S)
//   broadcast, reduce    1 + ceil(log2 (n-1))        S
//
// Wins: for small and medium messages over many ranks. Rounds are logarithmic, and a large message
// whose slices follow each other through the trees moves the bytes of a ring. One rank finishes
// each element, so all ranks get the same bits. Each level rounds once.
//
// Source: Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan" (2009).
#include <array>

#include "algorithms/algorithms.hpp"
#include "algorithms/member.hpp"
#include "algorithms/tree.hpp"

namespace tutti::algorithms {
namespace double_binary_tree_parts {

/// A node's place in one tree. Numbers of nodes, or kNoRank.
struct Place {
  Rank parent = kNoRank;
  std::array<Rank, 2> children = {kNoRank, kNoRank};
  [[nodiscard]] bool is_leaf() const { return children[0] == kNoRank && children[1] == kNoRank; }
};

/// The first tree, with the root at node 0.
Place place_below_zero(Rank node, Rank nodes) {
  Rank bit = 1;
  while (bit < nodes && (node & bit) == 0) bit *= 2;
  Place place;
  if (node == 0) {
    if (nodes > 1) place.children[1] = bit / 2;
    return place;
  }
  place.parent = (node ^ bit) | (bit * 2);
  if (place.parent >= nodes) place.parent = node ^ bit;
  if (bit > 1) place.children[0] = node - bit / 2;
  Rank step = bit / 2;
  while (step > 0 && node + step >= nodes) step /= 2;
  if (step > 0) place.children[1] = node + step;
  return place;
}

/// The second tree: the first one under another numbering of the nodes.
Place place_in_second(Rank node, Rank nodes) {
  const bool mirror = nodes % 2 == 0;
  const auto renumber = [&](Rank other) {
    if (other == kNoRank) return kNoRank;
    return mirror ? nodes - 1 - other : (other + 1) % nodes;
  };
  const Rank original = mirror ? nodes - 1 - node : (node + nodes - 1) % nodes;
  Place place = place_below_zero(original, nodes);
  return {renumber(place.parent), {renumber(place.children[0]), renumber(place.children[1])}};
}

constexpr int kTrees = 2;

/// A rank's places in both trees; peers are ranks. Tree t has chunk t and lane t.
using Places = std::array<Place, kTrees>;

ChunkSet chunk_of(ir::Space space, int tree) {
  return {space, static_cast<std::uint32_t>(tree), 1, 1};
}

Lane lane_of(int tree) { return static_cast<Lane>(tree); }

Branch branch_of(const Place& place, int tree) {
  return {.parent = place.parent, .children = place.children, .lane = lane_of(tree)};
}

void sum_up(Member& me, const Place& place, int tree) {
  sum_up(me, branch_of(place, tree), chunk_of(ir::Space::kInput, tree),
         chunk_of(ir::Space::kOutput, tree));
}

/// A leaf has its sum at once: it is sent before waiting in the other tree.
void sum_up_both(Member& me, const Places& places) {
  const int first = places[1].is_leaf() ? 1 : 0;
  for (const int tree : {first, 1 - first}) {
    sum_up(me, places[static_cast<std::size_t>(tree)], tree);
  }
}

/// Nobody waits for a leaf: it receives last.
void hand_down_both(Member& me, const Places& places) {
  const int first = places[0].is_leaf() ? 1 : 0;
  for (const int tree : {first, 1 - first}) {
    hand_down(me, branch_of(places[static_cast<std::size_t>(tree)], tree),
              chunk_of(ir::Space::kOutput, tree));
  }
}

void all_reduce(Member& me) {
  const Places places = {place_below_zero(me.rank, me.ranks), place_in_second(me.rank, me.ranks)};
  sum_up_both(me, places);
  hand_down_both(me, places);
}

/// The rank of a node of the trees that hang below the collective's root: node i is the rank i+1
/// places after it.
Rank rank_below_root(const Member& me, Rank node) {
  return node == kNoRank ? kNoRank : (me.request.root + 1 + node) % me.ranks;
}

/// The places of a rank that is not the collective's root, in the trees that hang below it.
Places places_below_root(const Member& me) {
  const Rank node = me.from_root() - 1;
  const Rank nodes = me.ranks - 1;
  Places places = {place_below_zero(node, nodes), place_in_second(node, nodes)};
  for (Place& place : places) {
    const bool is_top = place.parent == kNoRank;
    place.parent = is_top ? me.request.root : rank_below_root(me, place.parent);
    for (Rank& child : place.children) child = rank_below_root(me, child);
  }
  return places;
}

/// The rank at the top of a tree that hangs below the collective's root.
Rank top_of(const Member& me, int tree) {
  const Rank nodes = me.ranks - 1;
  const Rank second_top = nodes % 2 == 0 ? nodes - 1 : 1 % nodes;
  return rank_below_root(me, tree == 0 ? 0 : second_top);
}

void broadcast(Member& me) {
  if (!me.is_root()) {
    hand_down_both(me, places_below_root(me));
    return;
  }
  for (int tree = 0; tree < kTrees; ++tree) {
    const Place above = {.children = {top_of(me, tree), kNoRank}};
    hand_down(me, branch_of(above, tree), chunk_of(ir::Space::kInput, tree));
  }
  me.program.copy(in(0, kTrees), out(0, kTrees));
}

void reduce(Member& me) {
  if (!me.is_root()) {
    sum_up_both(me, places_below_root(me));
    return;
  }
  for (int tree = 0; tree < kTrees; ++tree) {
    sum_up(me, {.children = {top_of(me, tree), kNoRank}}, tree);
  }
}

RankProgram program_of(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return all_reduce;
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
  if (!supports(request)) return unsupported("double_binary_tree", request);
  return generate(request, "double_binary_tree", kTrees, program_of(request.collective));
}

}  // namespace double_binary_tree_parts

ir::Algorithm double_binary_tree() {
  using namespace double_binary_tree_parts;
  return {
      .name = "double_binary_tree",
      .summary = "two trees carry half each; the leaves of one are the inner nodes of the other",
      .supports = supports,
      .generate = generate};
}

}  // namespace tutti::algorithms
