// Ranks that load from and store to each other's buffers where they lie.
#include <algorithm>
#include <atomic>
#include <chrono>
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
const std::vector<std::size_t> kCounts{9001, 30'011};

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
    const auto cases = cases_of(11, {9001}, {DataType::kFloat32});
    run_ranks(runtimes, [&](Communicator& communicator) {
      run_cases(communicator, cases, runtimes[communicator.rank()]->heap.get());
    });
  }
}

/// A rank whose call failed may do with its buffers what it likes, whatever its peers are at.
TEST(DirectCollectives, AfterAnErrorNobodyTouchesTheBuffers) {
  for (const Placement placement : {Placement::kThreads, Placement::kProcesses})
    for (int round = 0; round < 20; ++round) {
      const Runtimes runtimes = make_test_runtimes(placement, 2);
      run_ranks(runtimes, [&](Communicator& communicator) {
        constexpr std::size_t kBytes = std::size_t{4} << 20;
        SharedHeap& heap = *runtimes[communicator.rank()]->heap;
        const auto memory = heap.allocate(kBytes);
        ASSERT_TRUE(memory) << memory.error().what;
        Call call;
        call.send = call.recv = memory->data();
        call.count = kBytes / sizeof(float);
        std::thread aborter;
        if (communicator.rank() == 0)
          aborter = std::thread([&] {
            std::this_thread::sleep_for(std::chrono::microseconds(500 + 300 * round));
            communicator.abort({Code::kAborted, "enough"});
          });
        while (communicator.run(call)) {
        }
        std::ranges::fill(*memory, std::byte{0x5a});
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        EXPECT_TRUE(std::ranges::all_of(*memory, [](std::byte b) { return b == std::byte{0x5a}; }))
            << "rank " << communicator.rank() << ", round " << round;
        if (aborter.joinable()) aborter.join();
        EXPECT_TRUE(heap.free(memory->data()));
      });
    }
}

}  // namespace
}  // namespace tutti
