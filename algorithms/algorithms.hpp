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
ir::Algorithm ring();

}  // namespace tutti::algorithms
