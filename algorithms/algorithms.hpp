// Every algorithm Tutti knows, one file each; this is the list.
//
// An algorithm's name and collective pick its program; the file of that name says what the idea
// is, what it costs and when it wins. docs/algorithms.md compares them.
#pragma once

#include <span>

#include "src/ir/algorithm.hpp"

namespace tutti::algorithms {

/// All of them, in the order of `tutti algo list`. Lives as long as the process.
std::span<const ir::Algorithm> all();

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
ir::Algorithm two_shot_bf16();
ir::Algorithm fixed_tree();

}  // namespace tutti::algorithms
