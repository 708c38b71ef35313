// Series of calls for tests of the device interpreter.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "src/base/sanitized.hpp"
#include "tests/device/job.hpp"
#include "tests/device/programs.hpp"

namespace tutti::device::testing {

/// Of a block of any call here.
inline constexpr std::size_t kMostElements = 3000;

/// A seed of this run, which ctest's report keeps.
std::uint64_t new_seed();

/// A random factor for each rank.
std::vector<std::uint64_t> factors(DataType type, Rank ranks, std::mt19937_64& random);

std::vector<lower::Lowered> programs_of(const std::vector<Lowering>& lowerings);

/// The area for all of these with calls of up to kMostElements of 8 bytes.
AreaShape area_for(const std::vector<Lowering>& lowerings);

/// Plans the calls; nothing where one cannot be.
std::vector<PlannedCall> plan_all(const std::vector<Call>& calls, std::uint32_t most_blocks,
                                  const AreaShape& area, std::mt19937_64& random);

}  // namespace tutti::device::testing
