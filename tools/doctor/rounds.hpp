// Which pairs of hosts are measured, and when: no host is in two pairs at a time. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/doctor/facts.hpp"

namespace tutti::doctor {

/// From so many hosts on, a sample of the pairs is measured unless all are asked for.
inline constexpr std::size_t kMostHostsForAllPairs = 32;

using Round = std::vector<Pair>;

/// All pairs of `hosts` in the fewest rounds: hosts - 1, or `hosts` for an odd number. The circle
/// method of tournaments: one host stays, the others move on by one place each round.
std::vector<Round> all_pairs(std::size_t hosts);

/// The ring 0-1-2-...-0 and as many random pairs again, in rounds. `seed` decides which.
std::vector<Round> sampled_pairs(std::size_t hosts, std::uint64_t seed);

}  // namespace tutti::doctor
