#include "src/comm/call_counters.hpp"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(CallCounters, AddUpWhatIsCompleteOfEachCollective) {
  CallCounters counters;
  for (const std::uint64_t bytes : {100U, 20U}) {
    counters.begin(Collective::kAllReduce, DataType::kFloat32, 25);
    counters.add(Collective::kAllReduce, {bytes, bytes / 2});
    counters.end(Collective::kAllReduce);
  }
  const CallTotals totals = counters.totals(Collective::kAllReduce);
  EXPECT_EQ(totals.calls, 2U);
  EXPECT_EQ(totals.sent.all, 120U);
  EXPECT_EQ(totals.sent.to_other_hosts, 60U);
  EXPECT_GT(totals.seconds, 0.0);
  EXPECT_EQ(counters.totals(Collective::kAllGather).calls, 0U);
  EXPECT_EQ(counters.totals(Collective::kAllGather).seconds, 0.0);
}

TEST(CallCounters, ShowWhatIsUnderWayAndItsAgeUntilItEnds) {
  CallCounters counters;
  EXPECT_FALSE(counters.under_way());
  counters.begin(Collective::kBroadcast, DataType::kBfloat16, 7);
  const auto first = counters.under_way();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->collective, Collective::kBroadcast);
  EXPECT_EQ(first->type, DataType::kBfloat16);
  EXPECT_EQ(first->count, 7U);
  EXPECT_EQ(first->sequence, 1U);
  EXPECT_GT(first->age_s, 0.0);
  counters.begin(Collective::kBroadcast, DataType::kBfloat16, 7);  // it went on
  EXPECT_EQ(counters.under_way()->sequence, 1U);
  counters.end(Collective::kBroadcast);
  EXPECT_FALSE(counters.under_way());
  counters.begin_again();
  EXPECT_EQ(counters.under_way()->sequence, 2U);
  EXPECT_EQ(counters.under_way()->count, 7U);
}

TEST(CallCounters, DoNotCountWhatIsCancelled) {
  CallCounters counters;
  counters.begin(Collective::kReduce, DataType::kInt8, 1);
  counters.cancel();
  EXPECT_FALSE(counters.under_way());
  EXPECT_EQ(counters.totals(Collective::kReduce).calls, 0U);
  EXPECT_EQ(counters.totals(Collective::kReduce).seconds, 0.0);
  counters.cancel();  // nothing is under way
  counters.begin(Collective::kReduce, DataType::kInt8, 1);
  EXPECT_EQ(counters.under_way()->sequence, 2U);
}

TEST(CallCounters, ShowOtherThreadsNoMixOfTwoCalls) {
  CallCounters counters;
  std::atomic<bool> over{false};
  std::thread driver([&] {
    for (std::uint64_t call = 1; call <= 20'000; ++call) {
      const auto collective = static_cast<Collective>(call % kCollectives);
      counters.begin(collective, static_cast<DataType>(call % kDataTypes), call);
      counters.add(collective, {1, 1});
      counters.end(collective);
    }
    over = true;
  });
  while (!over)
    if (const auto call = counters.under_way()) {
      EXPECT_EQ(call->count, call->sequence);
      EXPECT_EQ(static_cast<std::uint64_t>(call->collective), call->sequence % kCollectives);
      EXPECT_EQ(static_cast<std::uint64_t>(call->type), call->sequence % kDataTypes);
    }
  driver.join();
  EXPECT_EQ(counters.totals(Collective::kAllReduce).calls, 2'000U);
}

}  // namespace
}  // namespace tutti
