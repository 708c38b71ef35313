// Ranks that load from and store to each other's buffers where they lie.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <iterator>
#include <thread>

#include <gtest/gtest.h>

#include "tests/collectives/cases.hpp"
#include "tests/collectives/ranks.hpp"

namespace tutti {
namespace {

using testing::Case;
using testing::cases_of;
using testing::make_test_runtimes;
using testing::Placement;
using testing::run_cases;
using testing::run_ranks;
using testing::Runtimes;

/// Long enough for no rank to publish its input.
const std::vector<std::size_t> kCounts{33'001, 40'011};

class Direct : public ::testing::TestWithParam<std::tuple<Placement, int>> {
 protected:
  const Placement placement_ = std::get<0>(GetParam());
  const int ranks_ = std::get<1>(GetParam());
};

TEST_P(Direct, CollectivesInMappedMemoryAreRightAndStageNothing) {
  const Runtimes runtimes = make_test_runtimes(placement_, ranks_);
  std::vector<Case> cases = cases_of(ranks_, kCounts, {DataType::kFloat32, DataType::kUint8});
  std::erase_if(cases, [](const Case& test) {
    return test.op == ReduceOp::kPreMulSum ||  // peers do not know this rank's factor
           (test.request.in_place && test.request.collective == Collective::kAllToAll);
  });
  std::vector<std::size_t> at_rest(ranks_);
  run_ranks(runtimes, [&](Communicator& communicator) {
    SharedHeap& heap = *runtimes[communicator.rank()]->heap;
    if (placement_ == Placement::kProcesses) at_rest[communicator.rank()] = heap.allocated_bytes();
    run_cases(communicator, cases, &heap);
    if (placement_ == Placement::kProcesses) {
      EXPECT_EQ(heap.allocated_bytes(), at_rest[communicator.rank()]);
    }
  });
}

TEST_P(Direct, WhereOneRankHasOrdinaryMemoryAllResultsAreRight) {
  const Runtimes runtimes = make_test_runtimes(placement_, ranks_);
  const auto cases = cases_of(ranks_, kCounts, {DataType::kFloat32});
  run_ranks(runtimes, [&](Communicator& communicator) {
    const bool ordinary = communicator.rank() == 1;
    run_cases(communicator, cases, ordinary ? nullptr : runtimes[communicator.rank()]->heap.get());
  });
}

TEST_P(Direct, WhereSomeRanksAreInPlaceAllResultsAreRight) {
  const Runtimes runtimes = make_test_runtimes(placement_, ranks_);
  auto cases = cases_of(ranks_, kCounts, {DataType::kFloat32});
  for (Case& test : cases) test.in_place_ranks = 0b0101;
  run_ranks(runtimes, [&](Communicator& communicator) {
    run_cases(communicator, cases, runtimes[communicator.rank()]->heap.get());
  });
}

/// Broadcasts that are long enough for the root to do a share of them, from every root.
std::vector<Case> large_broadcasts(std::int32_t ranks) {
  std::vector<Case> cases;
  for (Rank root = 0; root < ranks; ++root)
    for (const std::uint32_t in_place_ranks : {0U, 0b0101U, ~0U})
      cases.push_back({{Collective::kBroadcast, ranks, root, true},
                       70'011,
                       DataType::kFloat32,
                       ReduceOp::kSum,
                       in_place_ranks});
  return cases;
}

TEST_P(Direct, LargeBroadcastsFromEveryRootAreRight) {
  const Runtimes runtimes = make_test_runtimes(placement_, ranks_);
  run_ranks(runtimes, [&](Communicator& communicator) {
    run_cases(communicator, large_broadcasts(ranks_), runtimes[communicator.rank()]->heap.get());
  });
}

INSTANTIATE_TEST_SUITE_P(Between, Direct,
                         ::testing::Combine(::testing::Values(Placement::kThreads,
                                                              Placement::kProcesses),
                                            ::testing::Values(2, 3, 5)),
                         [](const auto& info) {
                           return testing::name_of(std::get<0>(info.param)) + "_" +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST(DirectCollectives, OneRankAloneMayTurnThemOff) {
  Runtimes runtimes = make_test_runtimes(Placement::kProcesses, 3);
  runtimes[2] = testing::make_test_runtime({{"DIRECT", "0"}, {"SOCKET_IFNAME", "lo"}});
  const auto cases = cases_of(3, {9001}, {DataType::kFloat32});
  run_ranks(runtimes, [&](Communicator& communicator) {
    run_cases(communicator, cases, runtimes[communicator.rank()]->heap.get());
  });
}

/// Above eight ranks one pass does not store to all of them.
TEST(DirectCollectives, OfElevenRanksAreRight) {
  for (const Placement placement : {Placement::kThreads, Placement::kProcesses}) {
    const Runtimes runtimes = make_test_runtimes(placement, 11);
    auto cases = cases_of(11, {9001}, {DataType::kFloat32});
    std::ranges::copy(large_broadcasts(11), std::back_inserter(cases));
    run_ranks(runtimes, [&](Communicator& communicator) {
      run_cases(communicator, cases, runtimes[communicator.rank()]->heap.get());
    });
  }
}

/// In place on all ranks that can be, in `memory`.
Call call_in(std::span<std::byte> memory, Collective collective, Rank rank) {
  const bool gathers = collective == Collective::kAllGather || collective == Collective::kGather;
  Call call;
  call.collective = collective;
  call.count = memory.size() / sizeof(float) / (gathers ? 2 : 1);
  call.recv = memory.data();
  call.send = memory.data() + (gathers ? static_cast<std::size_t>(rank) * memory.size() / 2 : 0);
  return call;
}

/// A rank whose call failed may do with its buffers what it likes, whatever its peers are at.
class AfterAnError : public ::testing::TestWithParam<Collective> {};

TEST_P(AfterAnError, NobodyTouchesTheBuffers) {
  for (const Placement placement : {Placement::kThreads, Placement::kProcesses})
    for (int round = 0; round < 20; ++round) {
      const Runtimes runtimes = make_test_runtimes(placement, 2);
      run_ranks(runtimes, [&](Communicator& communicator) {
        constexpr std::size_t kBytes = std::size_t{4} << 20;
        SharedHeap& heap = *runtimes[communicator.rank()]->heap;
        const auto memory = heap.allocate(kBytes);
        ASSERT_TRUE(memory) << memory.error().what;
        const Call call = call_in(*memory, GetParam(), communicator.rank());
        std::thread aborter;
        if (communicator.rank() == 0)
          aborter = std::thread([&] {
            std::this_thread::sleep_for(std::chrono::microseconds(500 + 300 * round));
            communicator.abort({Code::kAborted, "enough"});
          });
        while (communicator.run(call)) {
        }
        std::memset(memory->data(), 0x5a, kBytes);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        const std::byte* first = memory->data();
        EXPECT_TRUE(*first == std::byte{0x5a} && std::memcmp(first, first + 1, kBytes - 1) == 0)
            << "rank " << communicator.rank() << ", round " << round;
        if (aborter.joinable()) aborter.join();
        EXPECT_TRUE(heap.free(memory->data()));
      });
    }
}

INSTANTIATE_TEST_SUITE_P(Of, AfterAnError,
                         ::testing::Values(Collective::kAllReduce, Collective::kAllGather,
                                           Collective::kBroadcast, Collective::kGather),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace tutti
