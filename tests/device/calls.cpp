#include "tests/device/calls.hpp"

#include <span>
#include <string>

#include <gtest/gtest.h>

#include "tests/device/bits.hpp"

namespace tutti::device::testing {

std::uint64_t new_seed() {
  const std::uint64_t seed = std::random_device{}();
  ::testing::Test::RecordProperty("seed", std::to_string(seed));
  return seed;
}

std::vector<std::uint64_t> factors(DataType type, Rank ranks, std::mt19937_64& random) {
  std::vector<std::uint64_t> bits(static_cast<std::size_t>(ranks));
  fill_with_numbers(type, random, std::as_writable_bytes(std::span(bits)));
  return bits;
}

std::vector<lower::Lowered> programs_of(const std::vector<Lowering>& lowerings) {
  std::vector<lower::Lowered> programs;
  for (const Lowering& lowering : lowerings) programs.push_back(lowering.lowered);
  return programs;
}

AreaShape area_for(const std::vector<Lowering>& lowerings) {
  const auto ranks = static_cast<std::size_t>(lowerings.front().lowered.request.ranks);
  return area_for(programs_of(lowerings), kMostElements * 8 * ranks);
}

std::vector<PlannedCall> plan_all(const std::vector<Call>& calls, std::uint32_t most_blocks,
                                  const AreaShape& area, std::mt19937_64& random) {
  std::vector<PlannedCall> planned;
  for (const Call& call : calls) {
    const std::uint32_t blocks = 1 + static_cast<std::uint32_t>(random() % most_blocks);
    auto made = plan(call, blocks, area, random);
    if (!made) return {};
    planned.push_back(*std::move(made));
  }
  return planned;
}

}  // namespace tutti::device::testing
