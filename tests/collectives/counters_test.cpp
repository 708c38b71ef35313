// What communicators count: the bytes that schedules promise, whatever way the data takes.
#include <barrier>
#include <memory>
#include <numeric>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/base/shared_heap.hpp"
#include "tests/collectives/ranks.hpp"

namespace tutti {
namespace {

using testing::make_test_runtimes;
using testing::Placement;
using testing::run_ranks;
using testing::Runtimes;

/// Of each rank, after one call of `count` floats.
std::vector<CallTotals> totals_after(const Runtimes& runtimes, Collective collective,
                                     std::size_t count, bool in_shared_memory = false) {
  const std::size_t blocks = runtimes.size();
  std::vector<CallTotals> totals(blocks);
  run_ranks(runtimes, [&](Communicator& communicator) {
    const Rank rank = communicator.rank();
    const std::size_t bytes = blocks * count * sizeof(float);
    std::vector<float> ordinary(2 * blocks * count);
    Call call;
    call.collective = collective;
    call.send = ordinary.data();
    call.recv = ordinary.data() + blocks * count;
    SharedHeap& heap = *runtimes[rank]->heap;
    if (in_shared_memory) {
      const auto input = heap.allocate(bytes), output = heap.allocate(bytes);
      ASSERT_TRUE(input && output);
      call.send = input->data();
      call.recv = output->data();
    }
    call.count = count;
    const Status status = communicator.run(call);
    EXPECT_TRUE(status) << status.error().what;
    totals[rank] = communicator.totals(collective);
    EXPECT_FALSE(communicator.under_way());
    if (in_shared_memory) {
      EXPECT_TRUE(heap.free(const_cast<std::byte*>(static_cast<const std::byte*>(call.send))));
      EXPECT_TRUE(heap.free(static_cast<std::byte*>(call.recv)));
    }
  });
  for (const CallTotals& own : totals) {
    EXPECT_EQ(own.calls, 1U);
    EXPECT_GT(own.seconds, 0.0);
  }
  return totals;
}

std::uint64_t sum_of(const std::vector<CallTotals>& totals) {
  return std::accumulate(totals.begin(), totals.end(), std::uint64_t{0},
                         [](auto sum, const CallTotals& own) { return sum + own.sent.all; });
}

class Counted : public ::testing::TestWithParam<std::tuple<Placement, int>> {
 protected:
  [[nodiscard]] Runtimes runtimes(const std::string& algorithm) const {
    return make_test_runtimes(std::get<0>(GetParam()), ranks_, {{"ALGO", algorithm}});
  }
  const int ranks_ = std::get<1>(GetParam());
  const std::uint64_t n_ = ranks_;
};

TEST_P(Counted, AnAllReduceSendsTwiceWhatEachRankHasToGetRidOf) {
  for (const char* algorithm : {"ring", "two_shot", "fixed_tree"})
    for (const std::size_t count : {1U, 7U, 12U, 12'000U, 30'011U}) {
      SCOPED_TRACE(fmt::format("{} of {}", algorithm, count));
      const auto totals = totals_after(runtimes(algorithm), Collective::kAllReduce, count);
      const std::uint64_t bytes = count * sizeof(float);
      EXPECT_EQ(sum_of(totals), 2 * (n_ - 1) * bytes);
      if (count % (16 * n_) != 0) continue;  // chunks are as equal as whole cache lines allow
      for (const CallTotals& own : totals) EXPECT_EQ(own.sent.all, 2 * (n_ - 1) * bytes / n_);
    }
}

TEST_P(Counted, AReduceScatterSendsEveryBlockButTheOwnAndAnAllGatherTheSame) {
  for (const std::size_t count : {1U, 7U, 5'000U, 30'011U}) {
    const std::uint64_t block = count * sizeof(float);
    for (const char* algorithm : {"ring", "one_shot", "fixed_tree"})
      for (const CallTotals& own :
           totals_after(runtimes(algorithm), Collective::kReduceScatter, count))
        EXPECT_EQ(own.sent.all, (n_ - 1) * block) << algorithm << ' ' << count;
    for (const char* algorithm : {"ring", "direct"})
      for (const CallTotals& own : totals_after(runtimes(algorithm), Collective::kAllGather, count))
        EXPECT_EQ(own.sent.all, (n_ - 1) * block) << algorithm << ' ' << count;
  }
}

TEST_P(Counted, ABroadcastSendsFromItsRootAlone) {
  for (const std::size_t count : {7U, 30'011U}) {
    const auto totals = totals_after(runtimes("direct"), Collective::kBroadcast, count);
    EXPECT_EQ(totals[0].sent.all, (n_ - 1) * count * sizeof(float));
    for (std::size_t rank = 1; rank < totals.size(); ++rank) EXPECT_EQ(totals[rank].sent.all, 0U);
  }
}

TEST_P(Counted, WhatIsEncodedCountsAsEncoded) {
  const auto totals =
      totals_after(make_test_runtimes(std::get<0>(GetParam()), ranks_,
                                      {{"ALGO", "two_shot"}, {"COMPRESS", "all_reduce:bf16"}}),
                   Collective::kAllReduce, 30'011);
  // Compressed between hosts alone, or everywhere where there is one.
  const bool all_compressed = std::get<0>(GetParam()) != Placement::kMixed;
  if (all_compressed) {
    EXPECT_EQ(sum_of(totals), 2 * (n_ - 1) * 30'011 * 2);
  }
}

TEST_P(Counted, BytesToOtherHostsAreThoseToRanksThere) {
  const auto [placement, ranks] = GetParam();
  const auto totals = totals_after(runtimes("direct"), Collective::kAllGather, 1'000);
  for (Rank rank = 0; rank < ranks; ++rank) {
    std::uint64_t away = 0;
    for (Rank peer = 0; peer < ranks; ++peer)
      if (placement == Placement::kHosts ? peer != rank
                                         : placement == Placement::kMixed && (peer - rank) % 2 != 0)
        ++away;
    EXPECT_EQ(totals[rank].sent.to_other_hosts, away * 4'000) << "rank " << rank;
  }
}

TEST_P(Counted, SendsCountOnceEachAndTheirGroupsTimeOnce) {
  run_ranks(runtimes(""), [&](Communicator& communicator) {
    const Rank rank = communicator.rank();
    const Rank next = (rank + 1) % ranks_, before = (rank + ranks_ - 1) % ranks_;
    std::vector<float> data(100, 1.0F), got(100), own(10);
    std::vector<Call> calls = {testing::call_of(Collective::kSend, data, next),
                               testing::call_of(Collective::kRecv, got, before),
                               testing::call_of(Collective::kSend, std::span(data).first(10), rank),
                               testing::call_of(Collective::kRecv, own, rank)};
    ASSERT_TRUE(communicator.start(calls));
    GroupMember* const self = &communicator;
    ASSERT_TRUE(run_group({&self, 1}));
    const CallTotals sends = communicator.totals(Collective::kSend);
    const CallTotals receives = communicator.totals(Collective::kRecv);
    EXPECT_EQ(sends.calls, 2U);
    EXPECT_EQ(receives.calls, 2U);
    EXPECT_EQ(sends.sent.all, 400U) << "not what it sent to itself";
    EXPECT_EQ(receives.sent.all, 0U);
    EXPECT_GT(sends.seconds, 0.0);
    EXPECT_EQ(receives.seconds, 0.0);
  });
}

TEST_P(Counted, BlocksOfDifferentSizesCountAsTheyAre) {
  std::vector<std::size_t> counts(ranks_), starts(ranks_);
  for (int rank = 0; rank < ranks_; ++rank)
    counts[rank] = 1 + 1'000 * static_cast<std::size_t>(rank);
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), std::size_t{0});
  const std::size_t total = starts.back() + counts.back();
  run_ranks(runtimes("one_shot"), [&](Communicator& communicator) {
    std::vector<float> in(total), out(total);
    Call call;
    call.collective = Collective::kReduceScatter;
    call.send = in.data();
    call.recv = out.data();
    call.count = total;
    call.blocks = std::make_shared<const ir::Blocks>(ir::Blocks{counts, starts});
    const Status status = communicator.run(call);
    ASSERT_TRUE(status) << status.error().what;
    EXPECT_EQ(communicator.totals(Collective::kReduceScatter).sent.all,
              (total - counts[communicator.rank()]) * sizeof(float));
  });
}

std::string name_of_info(const ::testing::TestParamInfo<Counted::ParamType>& info) {
  const auto [placement, ranks] = info.param;
  return testing::name_of(placement) + "_" + std::to_string(ranks);
}
INSTANTIATE_TEST_SUITE_P(, Counted,
                         ::testing::Combine(::testing::Values(Placement::kThreads,
                                                              Placement::kProcesses,
                                                              Placement::kHosts, Placement::kMixed),
                                            ::testing::Values(2, 3, 4)),
                         name_of_info);

TEST(CountedInMappedMemory, BytesAreThoseOfTheScheduleAlthoughNobodySendsAny) {
  for (const int ranks : {2, 3, 4}) {
    const auto runtimes = make_test_runtimes(Placement::kProcesses, ranks, {{"ALGO", "two_shot"}});
    const auto totals = totals_after(runtimes, Collective::kAllReduce, 48'000, true);
    for (const CallTotals& own : totals)
      EXPECT_EQ(own.sent.all, 2 * 48'000 * sizeof(float) * (ranks - 1) / ranks);
  }
}

TEST(CountedCalls, AreThoseOfTheCallerWhileTheLibraryTriesWaysToRunThem) {
  run_ranks(testing::make_test_runtime(), 3, [&](Communicator& communicator) {
    std::vector<float> data(3'000);
    const Call call = testing::call_of(Collective::kAllReduce, data);
    for (std::uint64_t done = 1; done <= 60; ++done) {
      ASSERT_TRUE(communicator.run(call));
      EXPECT_EQ(communicator.totals(Collective::kAllReduce).calls, done);
    }
    for (int other = 1; other < kCollectives; ++other)
      EXPECT_EQ(communicator.totals(static_cast<Collective>(other)).calls, 0U);
  });
}

TEST(CountedCalls, AreNotThoseThatFail) {
  std::barrier both(2);  // one is not aborted while it is still in the first call
  run_ranks(testing::make_test_runtime(), 2, [&](Communicator& communicator) {
    std::vector<float> data(8);
    EXPECT_TRUE(communicator.run(testing::call_of(Collective::kAllReduce, data)));
    both.arrive_and_wait();
    if (communicator.rank() == 0)
      communicator.abort(make_error(Code::kAborted, "enough"));
    else
      EXPECT_FALSE(communicator.run(testing::call_of(Collective::kAllReduce, data)));
    EXPECT_EQ(communicator.totals(Collective::kAllReduce).calls, 1U);
    EXPECT_FALSE(communicator.under_way());
  });
}

}  // namespace
}  // namespace tutti
