// The lists of algorithms. Each algorithm has a file of its own.
//
// A request is run by the algorithm of a given name for a given collective. The file of that name
// describes the idea, the cost, and when it wins. docs/algorithms.md compares them.
#pragma once

#include <span>

#include "src/ir/algorithm.hpp"

namespace tutti::algorithms {

/// The algorithms that run on any hosts, in the order of `tutti algo list`. Valid as long as the
/// process.
std::span<const ir::Algorithm> all();
/// Those whose schedules have groups, so they need a network that adds or copies. Valid as long as
/// the process.
std::span<const ir::Algorithm> in_network();
/// all(), then in_network().
std::span<const ir::Algorithm> with_in_network();

ir::Algorithm one_shot();
ir::Algorithm two_shot();
ir::Algorithm direct();
ir::Algorithm spread();
ir::Algorithm ring();
ir::Algorithm chain();
ir::Algorithm neighbor_exchange();
ir::Algorithm binomial();
ir::Algorithm k_nomial_4();
ir::Algorithm bine();
ir::Algorithm double_binary_tree();
ir::Algorithm recursive_doubling();
ir::Algorithm recursive_multiplying();
ir::Algorithm rabenseifner();
ir::Algorithm swing();
ir::Algorithm swing_latency();
ir::Algorithm circulant();
ir::Algorithm circulant_blocks();
ir::Algorithm pat();
ir::Algorithm bruck();
ir::Algorithm pairwise();
ir::Algorithm three_step();
ir::Algorithm fixed_tree();

}  // namespace tutti::algorithms
