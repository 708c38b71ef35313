// Algorithms for grids of any number of dimensions, built from an algorithm for one line.
#pragma once

#include <string_view>

#include "src/ir/algorithm.hpp"

namespace tutti::algorithms {

/// Takes one dimension after the other, nearest first.
ir::Algorithm blue_connect(std::string_view name, std::string_view summary,
                           const ir::Algorithm& line);

/// Runs one blue_connect per torus link of a rank (two per dimension), each on its share of the
/// data. Each begins at a different dimension or runs in a different direction.
ir::Algorithm torus(std::string_view name, std::string_view summary, const ir::Algorithm& line);

}  // namespace tutti::algorithms
