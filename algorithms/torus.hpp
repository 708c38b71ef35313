// Algorithms for grids of any number of dimensions, made of an algorithm for each line.
#pragma once

#include <string_view>

#include "src/ir/algorithm.hpp"

namespace tutti::algorithms {

/// One dimension after the other, the nearest first.
ir::Algorithm blue_connect(std::string_view name, std::string_view summary,
                           const ir::Algorithm& line);

/// As many copies of that as a rank has links in a torus, two for each dimension: each on its share
/// of the data, beginning at another dimension or going around in the other direction.
ir::Algorithm torus(std::string_view name, std::string_view summary, const ir::Algorithm& line);

}  // namespace tutti::algorithms
