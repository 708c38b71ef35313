// Makes packed trees flatter without using any link more.
//
// Packing grows one tree after the other; the first are as flat as can be, and the last ones take
// what is left, which can be ways three times as long. So two trees exchange their parents at a
// vertex: where one reaches v from u and the other from x, the first takes x and the second u. The
// links carry what they carried, and both are trees again unless the new parent lies below v. An
// exchange is made where it lowers the sum, over all trees and vertices, of 4^depth: it is the
// longest ways that count, since data streams at the same rate down all trees and is late by their
// height. Capacity that no tree uses is taken the same way, as if it were a tree's.
//
// A method of our own; the exchange is that of bases of matroids.
#pragma once

#include <vector>

#include "src/topo/forest/packing.hpp"

namespace tutti::topo::forest {

/// The same roots with the same weights together, within the same capacities, in the order of
/// roots. A tree may come in several parts, since only equal weights are exchanged. Deterministic;
/// stops at a minimum, or after a number of looks that takes about a second. FirstHops::kDirect:
/// hops from a root itself stay.
std::vector<PackedTree> flattened(const std::vector<PackedTree>& trees,
                                  const Capacities& capacities, FirstHops first = FirstHops::kAny);

}  // namespace tutti::topo::forest
