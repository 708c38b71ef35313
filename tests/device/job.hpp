// Calls through the device interpreter, compiled for the host: every thread of every block of every
// rank is a thread of this process.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "src/device/interpret.hpp"
#include "tests/device/sequential.hpp"

namespace tutti::device::testing {

/// How many threads there are.
struct Shape {
  Rank ranks = 1;
  std::uint32_t blocks = 1;  ///< at most, per rank
  std::uint32_t threads_per_block = 1;
};

/// One call with all that is known before it: images, memory before it and memory after.
struct PlannedCall {
  std::string name;
  DataType type = DataType::kFloat32;
  std::uint32_t blocks = 1;
  std::vector<std::vector<std::byte>> images;  ///< per rank
  std::vector<std::uint64_t> factor_bits;
  std::vector<RankMemory> before, after;
};

/// Plans one with random data. Buffers lie anywhere that elements may. Fails the test that runs
/// where an image cannot be built.
std::optional<PlannedCall> plan(const Call& call, std::uint32_t blocks, const AreaShape& area,
                                std::mt19937_64& random);

/// The area that all of these need, with slots for short slices.
AreaShape area_for(const std::vector<lower::Lowered>& programs, std::size_t most_input_bytes);

struct JobOptions {
  std::uint64_t seed = 0;  ///< of the order in which threads run
  std::uint64_t first_call = 1;
  std::optional<Duty> neglected;  ///< by all ranks
  std::optional<Rank> slow;       ///< this rank dawdles, others hardly
  std::optional<Rank> absent;     ///< this rank makes no call
  bool aborted = false;           ///< from the start
  std::uint64_t timeout_ns = 60'000'000'000;
};

/// Runs them one after the other in the same areas and buffers. Between two calls a rank's blocks
/// meet, as launches of one stream do; ranks do not. "": memory was after each call what it had to
/// be; else the first thing that went wrong.
std::string run_calls(const Shape& shape, const AreaShape& area,
                      const std::vector<PlannedCall>& calls, const JobOptions& options);

}  // namespace tutti::device::testing
