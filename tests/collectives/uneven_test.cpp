// Collectives whose blocks differ in size, against a plain reference: random counts, gaps between
// blocks, some ranks in place, all types, all placements.
#include <algorithm>
#include <cstring>
#include <random>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/collectives/cases.hpp"
#include "tests/collectives/ranks.hpp"

namespace tutti {
namespace {

using testing::make_test_runtimes;
using testing::Placement;
using testing::run_ranks;

/// A call as all ranks know it.
struct Uneven {
  Collective collective = Collective::kAllGather;
  std::vector<std::size_t> counts;
  DataType type = DataType::kInt32;
  ReduceOp op = ReduceOp::kSum;
  std::uint32_t in_place_ranks = 0;  ///< bit r: rank r
  std::uint32_t gap_ranks = 0;       ///< bit r: those of rank r are not packed, nor in order

  [[nodiscard]] std::size_t ranks() const { return counts.size(); }
};

std::string describe(const Uneven& test) {
  return fmt::format("{} counts={} {} {} in_place={:#x} gaps={:#x}", name_of(test.collective),
                     fmt::join(test.counts, ","), name_of(test.type), name_of(test.op),
                     test.in_place_ranks, test.gap_ranks);
}

/// Where the blocks of `rank` lie: without gaps, or backwards and with gaps of their numbers.
ir::Blocks blocks_of(const Uneven& test, Rank rank) {
  ir::Blocks blocks{test.counts, std::vector<std::size_t>(test.ranks())};
  const bool gaps = (test.gap_ranks >> rank & 1) != 0;
  std::size_t next = 0;
  for (std::size_t i = 0; i < test.ranks(); ++i) {
    const std::size_t block = gaps ? test.ranks() - 1 - i : i;
    blocks.starts[block] = next;
    next += test.counts[block] + (gaps ? block : 0);
  }
  return blocks;
}
std::size_t span_of(const ir::Blocks& blocks) {
  std::size_t span = 0;
  for (std::size_t block = 0; block < blocks.counts.size(); ++block)
    span = std::max(span, blocks.starts[block] + blocks.counts[block]);
  return span;
}

/// What `rank` contributes to element `index` of `block`: 0, 1 or 2.
int contribution(Rank rank, std::size_t block, std::size_t index) {
  const std::size_t mixed =
      (index * 2654435761U + block * 7919U + static_cast<std::size_t>(rank) * 40503U) >> 3;
  return static_cast<int>(mixed % 3);
}

int expected(const Uneven& test, std::size_t block, std::size_t index) {
  const auto owner = static_cast<Rank>(block);
  if (test.collective == Collective::kAllGather) return contribution(owner, block, index);
  int result = contribution(0, block, index);
  for (Rank rank = 1; rank < static_cast<Rank>(test.ranks()); ++rank) {
    const int other = contribution(rank, block, index);
    result = test.op == ReduceOp::kMax ? std::max(result, other) : result + other;
  }
  return result;
}

constexpr auto kGuard = std::byte{0x5a};  ///< of what must not be written

/// One call on one rank, checked: what it must write, and that it writes nothing else.
void run_uneven(Communicator& communicator, const Uneven& test) {
  const Rank rank = communicator.rank();
  const auto own = static_cast<std::size_t>(rank);
  const ir::Blocks blocks = blocks_of(test, rank);
  const std::size_t element = size_of(test.type);
  const bool gathers = test.collective == Collective::kAllGather;
  const bool in_place = (test.in_place_ranks >> rank & 1) != 0;
  std::vector<std::byte> all(span_of(blocks) * element + 8, kGuard);
  std::vector<std::byte> one(test.counts[own] * element + 8, kGuard);
  std::byte* const own_block = in_place ? all.data() + blocks.starts[own] * element : one.data();
  for (std::size_t block = 0; block < test.ranks(); ++block) {
    if (gathers && block != own) continue;
    std::byte* const to = gathers ? own_block : all.data() + blocks.starts[block] * element;
    for (std::size_t i = 0; i < test.counts[block]; ++i)
      testing::store(test.type, contribution(rank, block, i), to + i * element);
  }
  const std::vector<std::byte> before = all;

  Call call;
  call.collective = test.collective;
  call.send = gathers ? own_block : all.data();
  call.recv = gathers ? all.data() : own_block;
  call.count = blocks.total();
  call.type = test.type;
  call.op = test.op;
  call.blocks = std::make_shared<const ir::Blocks>(blocks);
  const std::string what = fmt::format("{} rank {}", describe(test), rank);
  const Status status = communicator.run(call);
  ASSERT_TRUE(status) << what << ": " << status.error().what;

  std::vector<std::byte> wanted = gathers ? std::vector(all.size(), kGuard) : before;
  for (std::size_t block = 0; block < test.ranks(); ++block) {
    if (!gathers && block != own) continue;
    std::byte* const to =
        gathers || in_place ? wanted.data() + blocks.starts[block] * element : nullptr;
    for (std::size_t i = 0; i < test.counts[block]; ++i) {
      std::byte value[8];
      testing::store(test.type, expected(test, block, i), value);
      if (to != nullptr)
        std::memcpy(to + i * element, value, element);
      else
        ASSERT_EQ(std::memcmp(value, one.data() + i * element, element), 0)
            << what << " element " << i;
    }
  }
  const auto [found, wrong] = std::ranges::mismatch(all, wanted);
  ASSERT_TRUE(found == all.end()) << what << " is wrong at byte " << found - all.begin()
                                  << " of the buffer of all blocks";
  const std::size_t own_bytes = test.counts[own] * element;
  ASSERT_TRUE(std::all_of(one.begin() + static_cast<std::ptrdiff_t>(in_place ? 0 : own_bytes),
                          one.end(), [](std::byte byte) { return byte == kGuard; }))
      << what << " wrote beyond the end";
}

void run_all(Communicator& communicator, const std::vector<Uneven>& tests) {
  for (const Uneven& test : tests) {
    run_uneven(communicator, test);
    if (::testing::Test::HasFatalFailure()) return communicator.abort({});
  }
}

using Random = std::mt19937_64;

/// Sizes as they come: none at all, equal ones, one that is huge among tiny ones, and any.
std::vector<std::size_t> random_counts(Random& random, std::size_t ranks) {
  const auto below = [&](std::size_t bound) { return random() % bound; };
  std::vector<std::size_t> counts(ranks, 0);
  const std::size_t huge = kSanitized ? 30'000 : 200'000;
  switch (below(5)) {
    case 0:
      break;
    case 1:
      std::ranges::fill(counts, below(3000));
      break;
    case 2:
      for (std::size_t& count : counts) count = below(4);
      counts[below(ranks)] = huge + below(1000);
      break;
    case 3:
      for (std::size_t& count : counts) count = below(2) * below(100);
      break;
    default:
      for (std::size_t& count : counts) count = below(std::size_t{1} << below(16));
  }
  return counts;
}

std::vector<Uneven> random_calls(std::uint64_t seed, std::size_t ranks, std::size_t number) {
  Random random(seed);
  std::vector<Uneven> tests;
  for (std::size_t i = 0; i < number; ++i) {
    Uneven test;
    test.collective = i % 2 == 0 ? Collective::kAllGather : Collective::kReduceScatter;
    test.counts = random_counts(random, ranks);
    test.type = static_cast<DataType>(i / 2 % kDataTypes);
    test.op = random() % 2 == 0 ? ReduceOp::kSum : ReduceOp::kMax;
    if (random() % 2 == 0) test.in_place_ranks = static_cast<std::uint32_t>(random());
    if (random() % 2 == 0) test.gap_ranks = static_cast<std::uint32_t>(random());
    // The sums of many are not exact in the narrowest types.
    const bool narrow = test.type >= DataType::kFloat8e4m3;
    if (narrow && ranks > 4) test.op = ReduceOp::kMax;
    tests.push_back(std::move(test));
  }
  return tests;
}

class UnevenBlocks : public ::testing::TestWithParam<std::tuple<Placement, int>> {
 protected:
  static void run(const std::vector<Uneven>& tests, const std::string& algorithm = "") {
    const auto [placement, ranks] = GetParam();
    run_ranks(make_test_runtimes(placement, ranks, {{"ALGO", algorithm}, {"TIMEOUT", "30"}}),
              [&](Communicator& communicator) { run_all(communicator, tests); });
  }
  static std::size_t ranks() { return static_cast<std::size_t>(std::get<1>(GetParam())); }
};

TEST_P(UnevenBlocks, AreGatheredAndReducedLikeThePlainReference) {
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  run(random_calls(seed, ranks(), kSanitized ? 24 : 48));
}

TEST_P(UnevenBlocks, GoAroundARing) {
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  run(random_calls(seed, ranks(), 24), "ring");
}

std::string name_of_uneven(const ::testing::TestParamInfo<UnevenBlocks::ParamType>& info) {
  const auto [placement, ranks] = info.param;
  return testing::name_of(placement) + "_" + std::to_string(ranks);
}
INSTANTIATE_TEST_SUITE_P(OfThreads, UnevenBlocks,
                         ::testing::Combine(::testing::Values(Placement::kThreads),
                                            ::testing::Values(1, 2, 3, 5, 8)),
                         name_of_uneven);
INSTANTIATE_TEST_SUITE_P(OfProcesses, UnevenBlocks,
                         ::testing::Combine(::testing::Values(Placement::kProcesses),
                                            ::testing::Values(2, 4, 7)),
                         name_of_uneven);
INSTANTIATE_TEST_SUITE_P(OfHosts, UnevenBlocks,
                         ::testing::Combine(::testing::Values(Placement::kHosts),
                                            ::testing::Values(2, 3, 6)),
                         name_of_uneven);
INSTANTIATE_TEST_SUITE_P(OfTwoHosts, UnevenBlocks,
                         ::testing::Combine(::testing::Values(Placement::kMixed),
                                            ::testing::Values(4, 6, 8)),
                         name_of_uneven);

/// Counts that differ between the ranks, here only in which of them is whose.
class UnevenMismatch : public ::testing::TestWithParam<Placement> {};

TEST_P(UnevenMismatch, OfCountsIsAnErrorOnAllRanksThatShowsBoth) {
  for (const Collective collective : {Collective::kAllGather, Collective::kReduceScatter})
    for (const std::size_t unit : {1, 40'000})
      run_ranks(
          make_test_runtimes(GetParam(), 4, {{"TIMEOUT", "10"}}), [&](Communicator& communicator) {
            const Rank rank = communicator.rank();
            Uneven test{collective, {0, 2 * unit, 3 * unit, 0}};
            if (rank == 3) std::swap(test.counts[0], test.counts[1]);
            const ir::Blocks blocks = blocks_of(test, rank);
            std::vector<std::int32_t> all(blocks.total()), own(3 * unit);
            Call call;
            call.collective = collective;
            const bool gathers = collective == Collective::kAllGather;
            call.send = gathers ? own.data() : all.data();
            call.recv = gathers ? all.data() : own.data();
            call.count = blocks.total();
            call.type = DataType::kInt32;
            call.blocks = std::make_shared<const ir::Blocks>(blocks);
            const Status status = communicator.run(call);
            ASSERT_FALSE(status) << "rank " << rank;
            const std::string& what = status.error().what;
            EXPECT_NE(status.error().code, Code::kTimeout) << what;
            EXPECT_NE(what.find(" with counts="), std::string::npos) << what;
            const Uneven other{collective,
                               {rank == 3 ? 0 : 2 * unit, rank == 3 ? 2 * unit : 0, 3 * unit, 0}};
            for (const Uneven& side : {test, other}) {
              Call theirs = call;
              theirs.blocks = std::make_shared<const ir::Blocks>(blocks_of(side, rank));
              EXPECT_NE(what.find(describe(signature_of(theirs))), std::string::npos) << what;
            }
          });
}

INSTANTIATE_TEST_SUITE_P(Between, UnevenMismatch,
                         ::testing::Values(Placement::kThreads, Placement::kProcesses,
                                           Placement::kHosts, Placement::kMixed),
                         [](const auto& info) { return testing::name_of(info.param); });

TEST(UnevenBlocks, ThatDoNotFitTheCallAreRefused) {
  auto ranks = testing::all_ranks(2);
  std::vector<std::int32_t> data(16);
  const auto refused = [&](Collective collective, const ir::Blocks& blocks, std::size_t count) {
    Call call;
    call.collective = collective;
    call.send = call.recv = data.data();
    call.count = count;
    call.type = DataType::kInt32;
    call.blocks = std::make_shared<const ir::Blocks>(blocks);
    const Status status = ranks[0]->run(call);
    return status ? std::string() : status.error().what;
  };
  EXPECT_NE(refused(Collective::kAllReduce, {{1, 2}, {0, 1}}, 3).find("one size"),
            std::string::npos);
  EXPECT_NE(refused(Collective::kAllGather, {{1, 2, 3}, {0, 1, 3}}, 6).find("for 2 ranks"),
            std::string::npos);
  EXPECT_NE(refused(Collective::kAllGather, {{1, 2}, {0, 1}}, 4).find("3 elements"),
            std::string::npos);
}

}  // namespace
}  // namespace tutti
