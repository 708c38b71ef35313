// Packs spanning trees into a network without switches, until the demand is met.
//
// Edmonds' theorem, in the form for trees that are partly grown: they can all be completed if and
// only if each set X of vertices that does not hold all of them has enough capacity leading into
// it, one unit for each tree that has not reached X. Trees grow one after the other, equal ones
// together as one with a weight. A tree is grown greedily, breadth first so that it is flat; then
// max-flow says whether the others can still be completed. If they cannot, there is a set X that
// the tree entered too often; the set is remembered with the capacity it has to spare, and the tree
// is grown again with more care. When a link has room for some of the equal trees only, the others
// wait as they are and go another way.
//
// Where it is asked for, each root takes before that, in turn, what direct hops it can. A direct
// hop to a leaf can wait: a GPU that has one to take from each neighbour is busy while the data of
// far roots is on its way. Grown after the far ones, near trees would find those hops taken.
//
// Sources: Edmonds, "Edge-disjoint branchings" (1973); Bérczi, Frank, "Packing arborescences"
// (2009); ForestColl (arXiv 2402.06787), section 5.3, which asks by max-flow for every single link.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "src/topo/forest/network.hpp"
#include "src/topo/forest/splitting.hpp"
#include "tutti/error.hpp"

namespace tutti::topo::forest {

using Capacities = std::map<std::pair<Vertex, Vertex>, std::int64_t>;

/// `weight` equal trees.
struct PackedTree {
  Vertex root = 0;
  std::int64_t weight = 0;
  std::vector<std::pair<Vertex, Vertex>> links;  ///< from, to; a vertex is reached before it sends
};

/// What trees are grown with at first.
enum class FirstHops : std::uint8_t { kAny, kDirect };

/// demand.trees trees from each root, in the order of roots, each of which reaches all of
/// `vertices`. kInternal if the capacities do not meet the demand (splitting.hpp says what that
/// means). `vertices` are ascending, and the demand's roots are among them.
Result<std::vector<PackedTree>> pack(const std::vector<Vertex>& vertices,
                                     const Capacities& capacities, const Demand& demand,
                                     FirstHops first = FirstHops::kAny);

}  // namespace tutti::topo::forest
