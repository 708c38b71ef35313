// Every algorithm in every protocol through the device interpreter, bit for bit what one thread
// computes with the host's arithmetic, under many interleavings.
#include "tests/device/programs.hpp"

#include <algorithm>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/device/bits.hpp"
#include "tests/device/job.hpp"

namespace tutti::device::testing {
namespace {

#if defined(TUTTI_SANITIZED)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

constexpr std::size_t kMostElements = 3000;

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

/// Types, operators, sizes and numbers of blocks in turn, each at its own pace.
class Variety {
 public:
  explicit Variety(std::uint64_t start) : turn_(start) {}
  Call next(const Lowering& lowering, std::mt19937_64& random) {
    constexpr std::size_t kCounts[] = {0, 1, 37, 64, 515, kMostElements};
    Call call;
    call.lowered = &lowering.lowered;
    call.volume.type = static_cast<DataType>(turn_ % kDataTypes);
    call.volume.count = kCounts[(turn_ / 5) % std::size(kCounts)];
    call.op = lowering.scales_input ? ReduceOp::kPreMulSum
                                    : static_cast<ReduceOp>(turn_ / 3 % (kReduceOps - 1));
    // Large calls of many ranks that hold a block for each take their time.
    if (lowering.lowered.request.ranks > 8 && call.volume.count == kMostElements)
      call.volume.count /= 4;
    call.factor_bits = factors(call.volume.type, lowering.lowered.request.ranks, random);
    ++turn_;
    return call;
  }

 private:
  std::uint64_t turn_;
};

void run_all(const Shape& shape, const std::vector<Lowering>& lowerings, int calls_each,
             const JobOptions& options = {}) {
  const std::uint64_t seed = options.seed != 0 ? options.seed : new_seed();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  const AreaShape area =
      area_for(programs_of(lowerings), kMostElements * 8 * static_cast<std::size_t>(shape.ranks));
  Variety variety(seed);
  std::vector<PlannedCall> calls;
  for (int i = 0; i < calls_each; ++i)
    for (const Lowering& lowering : lowerings) {
      const std::uint32_t blocks = 1 + static_cast<std::uint32_t>(random() % shape.blocks);
      auto planned = plan(variety.next(lowering, random), blocks, area, random);
      ASSERT_TRUE(planned);
      calls.push_back(*std::move(planned));
    }
  std::shuffle(calls.begin(), calls.end(), random);
  JobOptions seeded = options;
  seeded.seed = seed;
  ASSERT_EQ(run_calls(shape, area, calls, seeded), "");
}

class EveryProgram : public ::testing::TestWithParam<int> {};

TEST_P(EveryProgram, IsRunAsOneThreadRunsIt) {
  const Rank ranks = GetParam();
  const std::vector<Lowering> lowerings = all_lowerings(ranks);
  EXPECT_GT(lowerings.size(), 20u);
  run_all({ranks, 3, 1}, lowerings, ranks <= 8 && !kSanitized ? 3 : 1);
}

class EveryProgramOfFewRanks : public EveryProgram {};

TEST_P(EveryProgramOfFewRanks, IsRunSoByBlocksOfSeveralThreads) {
  const Rank ranks = GetParam();
  run_all({ranks, 2, 2}, all_lowerings(ranks), 1);
}

INSTANTIATE_TEST_SUITE_P(Ranks, EveryProgram, ::testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 16));
INSTANTIATE_TEST_SUITE_P(Ranks, EveryProgramOfFewRanks, ::testing::Values(1, 2, 3, 5));

}  // namespace
}  // namespace tutti::device::testing
