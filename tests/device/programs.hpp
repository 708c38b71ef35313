// Schedules lowered for ranks that map each other's memory, as tests run them.
#pragma once

#include <string_view>
#include <vector>

#include "src/lower/lower.hpp"

namespace tutti::device::testing {

/// A program with what it may be run for.
struct Lowering {
  lower::Lowered lowered;
  bool scales_input = false;  ///< for kPreMulSum, and for nothing else
};

/// Everything that lowering makes of every algorithm without a format over so many ranks: each
/// collective, in place and not, in each protocol. Roots in turn.
std::vector<Lowering> all_lowerings(Rank ranks);

/// The same of one algorithm.
std::vector<Lowering> lowerings_of(std::string_view algorithm, Collective collective, Rank ranks);

}  // namespace tutti::device::testing
