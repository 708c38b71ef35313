// Every algorithm in every protocol through the device interpreter, bit for bit what one thread
// computes with the host's arithmetic, under many interleavings.
#include <algorithm>
#include <memory>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/ir/blocks.hpp"
#include "src/lower/check.hpp"
#include "tests/device/calls.hpp"

namespace tutti::device::testing {
namespace {

/// Types, operators and sizes in turn, each at its own pace.
class Variety {
 public:
  explicit Variety(std::uint64_t start) : turn_(start % 4096) {}
  Call next(const Lowering& lowering, std::mt19937_64& random) {
    constexpr std::size_t kCounts[] = {0, 1, 37, 64, 515, kMostElements};
    const Rank ranks = lowering.lowered.request.ranks;
    Call call;
    call.lowered = &lowering.lowered;
    call.volume.type = static_cast<DataType>(turn_ % kDataTypes);
    call.volume.count = kCounts[turn_ / 5 % std::size(kCounts)];
    if (ranks > 8) call.volume.count = std::min<std::size_t>(call.volume.count, 700);
    call.op = lowering.scales_input ? ReduceOp::kPreMulSum
                                    : static_cast<ReduceOp>(turn_ / 3 % (kReduceOps - 1));
    call.factor_bits = factors(call.volume.type, ranks, random);
    ++turn_;
    return call;
  }

 private:
  std::uint64_t turn_;
};

void run_all(const Shape& shape, const std::vector<Lowering>& lowerings, int calls_each) {
  JobOptions options;
  options.seed = new_seed();
  SCOPED_TRACE(fmt::format("seed {}", options.seed));
  std::mt19937_64 random(options.seed);
  Variety variety(options.seed);
  std::vector<Call> calls;
  for (int i = 0; i < calls_each; ++i)
    for (const Lowering& lowering : lowerings) calls.push_back(variety.next(lowering, random));
  std::shuffle(calls.begin(), calls.end(), random);
  const AreaShape area = area_for(lowerings);
  const auto planned = plan_all(calls, shape.blocks, area, random);
  ASSERT_EQ(planned.size(), calls.size());
  ASSERT_EQ(run_calls(shape, area, planned, options), "");
}

class EveryProgram : public ::testing::TestWithParam<int> {};

TEST_P(EveryProgram, IsRunAsOneThreadRunsIt) {
  const Rank ranks = GetParam();
  std::vector<Lowering> lowerings = all_lowerings(ranks);
  EXPECT_GT(lowerings.size(), 20U);
  if (kSanitized && ranks > 8) {  // another quarter each time
    std::shuffle(lowerings.begin(), lowerings.end(), std::mt19937_64(new_seed()));
    lowerings.resize(lowerings.size() / 4);
  }
  run_all({ranks, ranks > 8 ? 2U : 3U, 1}, lowerings, kSanitized || ranks > 8 ? 1 : 3);
}

INSTANTIATE_TEST_SUITE_P(Ranks, EveryProgram, ::testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 16));

class EveryProgramOfFewRanks : public EveryProgram {};

TEST_P(EveryProgramOfFewRanks, IsRunSoByBlocksOfSeveralThreads) {
  const Rank ranks = GetParam();
  run_all({ranks, 2, 2}, all_lowerings(ranks), kSanitized ? 1 : 2);
}

INSTANTIATE_TEST_SUITE_P(Ranks, EveryProgramOfFewRanks, ::testing::Values(1, 2, 3, 5));

class EveryArithmetic : public ::testing::TestWithParam<int> {};

TEST_P(EveryArithmetic, IsThatOfTheHostInAllProtocols) {
  constexpr Rank kRanks = 4;
  std::vector<Lowering> lowerings;
  for (const char* algorithm : {"one_shot", "two_shot", "ring"})
    for (Lowering& lowering : lowerings_of(algorithm, Collective::kAllReduce, kRanks))
      lowerings.push_back(std::move(lowering));
  JobOptions options;
  options.seed = new_seed();
  SCOPED_TRACE(fmt::format("seed {}", options.seed));
  std::mt19937_64 random(options.seed);
  std::vector<Call> calls;
  for (const Lowering& lowering : lowerings)
    for (int op = 0; op < kReduceOps; ++op)
      for (const std::size_t count : {37, 1030}) {
        Call call;
        call.lowered = &lowering.lowered;
        call.volume = {count, static_cast<DataType>(GetParam())};
        call.op = static_cast<ReduceOp>(op);
        call.factor_bits = factors(call.volume.type, kRanks, random);
        if (lowering.scales_input == (call.op == ReduceOp::kPreMulSum)) calls.push_back(call);
      }
  const AreaShape area = area_for(lowerings);
  const auto planned = plan_all(calls, 3, area, random);
  ASSERT_EQ(planned.size(), calls.size());
  ASSERT_EQ(run_calls({kRanks, 3, 1}, area, planned, options), "");
}

INSTANTIATE_TEST_SUITE_P(Types, EveryArithmetic, ::testing::Range(0, kDataTypes),
                         [](const auto& info) {
                           return std::string(name_of(static_cast<DataType>(info.param)));
                         });

/// Some calls of each protocol.
std::vector<Lowering> mixture(Rank ranks) {
  std::vector<Lowering> lowerings;
  for (const auto& [algorithm, collective] :
       {std::pair{"one_shot", Collective::kAllReduce}, std::pair{"ring", Collective::kAllReduce},
        std::pair{"direct", Collective::kBroadcast}, std::pair{"direct", Collective::kAllToAll}})
    for (Lowering& lowering : lowerings_of(algorithm, collective, ranks))
      if (!lowering.scales_input) lowerings.push_back(std::move(lowering));
  return lowerings;
}

/// Of sizes that have nothing to do with each other, in order without gaps.
std::shared_ptr<const ir::Blocks> uneven_blocks(Rank ranks) {
  constexpr std::size_t kCounts[] = {0, 37, 1200, 5, 64};
  auto blocks = std::make_shared<ir::Blocks>();
  for (Rank rank = 0; rank < ranks; ++rank) {
    blocks->starts.push_back(blocks->total());
    blocks->counts.push_back(kCounts[static_cast<std::size_t>(rank) % std::size(kCounts)]);
  }
  return blocks;
}

TEST(UnevenBlocks, AreSharedLikeOthers) {
  constexpr Rank kRanks = 5;
  const lower::Placement one_host{std::vector<std::int32_t>(kRanks, 0)};
  std::vector<Lowering> lowerings;
  for (Lowering& lowering : all_lowerings(kRanks)) {
    const ir::Request& request = lowering.lowered.request;
    if (request.in_place || lowering.scales_input || !ir::may_be_uneven(request.collective))
      continue;
    if (lower::check(lowering.lowered, one_host, {.uneven_blocks = true}))
      lowerings.push_back(std::move(lowering));
  }
  ASSERT_GT(lowerings.size(), 4U);
  JobOptions options;
  options.seed = new_seed();
  SCOPED_TRACE(fmt::format("seed {}", options.seed));
  std::mt19937_64 random(options.seed);
  std::vector<Call> calls;
  for (const Lowering& lowering : lowerings)
    for (const DataType type : {DataType::kFloat32, DataType::kUint8, DataType::kBfloat16}) {
      const auto blocks = uneven_blocks(kRanks);
      calls.push_back({&lowering.lowered,
                       {blocks->total(), type, blocks},
                       ReduceOp::kSum,
                       factors(type, kRanks, random)});
    }
  const AreaShape area = area_for(lowerings);
  const auto planned = plan_all(calls, 3, area, random);
  ASSERT_EQ(planned.size(), calls.size());
  ASSERT_EQ(run_calls({kRanks, 3, 1}, area, planned, options), "");
}

// The flags of packets begin anew after 2^32 - 1 calls.
TEST(ManyCalls, PassTheEndOfTheFlags) {
  const std::vector<Lowering> lowerings = mixture(3);
  JobOptions options;
  options.seed = new_seed();
  options.first_call = kFlags - 8;
  SCOPED_TRACE(fmt::format("seed {}", options.seed));
  std::mt19937_64 random(options.seed);
  Variety variety(options.seed);
  std::vector<Call> calls;
  for (int i = 0; i < 2; ++i)
    for (const Lowering& lowering : lowerings) calls.push_back(variety.next(lowering, random));
  const AreaShape area = area_for(lowerings);
  const auto planned = plan_all(calls, 1, area, random);
  ASSERT_GT(planned.size(), 16U);
  ASSERT_EQ(run_calls({3, 1, 1}, area, planned, options), "");
}

}  // namespace
}  // namespace tutti::device::testing
