#include "src/exec/store_choice.hpp"

#include <map>

#include <gtest/gtest.h>

#include "src/exec/load_times.hpp"

namespace tutti::exec {
namespace {

using Times = std::map<std::pair<bool, bool>, int>;  // (output, peers) -> nanoseconds

/// Makes `calls` calls that take so long; how many used the stores `wanted`.
int run(StoreChoice& choice, int calls, const Times& times, StreamingStores wanted) {
  int used = 0;
  for (int call = 0; call < calls; ++call) {
    const auto [stores, timed] = choice.begin();
    if (stores == wanted) ++used;
    if (timed) choice.end(Nanos(times.at({stores.output, stores.peers})));
  }
  return used;
}

constexpr StreamingStores kOrdinary, kOutput{true, false}, kPeers{false, true}, kBoth{true, true};

TEST(StoreChoice, FindsTheFastestWhereverItBegins) {
  const Times times{
      {{false, false}, 1000}, {{true, false}, 900}, {{false, true}, 1400}, {{true, true}, 700}};
  for (const StreamingStores first : {kOrdinary, kOutput, kPeers, kBoth}) {
    StoreChoice choice(first, true);
    run(choice, 200, times, kBoth);
    EXPECT_EQ(choice.best(), kBoth);
    EXPECT_GT(run(choice, 1000, times, kBoth), 950);
  }
}

TEST(StoreChoice, TriesWhatWasBadTheMoreRarelyTheWorseItWas) {
  const Times times{
      {{false, false}, 1000}, {{true, false}, 1300}, {{false, true}, 7000}, {{true, true}, 7000}};
  StoreChoice choice(kOrdinary, true);
  run(choice, 100, times, kOrdinary);
  StoreChoice same = choice;
  EXPECT_GT(run(choice, 10'000, times, kOrdinary), 9'750);
  EXPECT_LT(run(same, 10'000, times, kPeers), 5);
}

TEST(StoreChoice, TriesNothingInAFewCalls) {
  const Times times{
      {{false, false}, 1000}, {{true, false}, 900}, {{false, true}, 1400}, {{true, true}, 700}};
  StoreChoice choice(kOrdinary, true);
  EXPECT_EQ(run(choice, 20, times, kOrdinary), 20);
}

TEST(StoreChoice, ChangesItsMindWhenTheMachineDoes) {
  const Times before{
      {{false, false}, 1000}, {{true, false}, 1300}, {{false, true}, 1200}, {{true, true}, 1500}};
  const Times after{
      {{false, false}, 5000}, {{true, false}, 5300}, {{false, true}, 1200}, {{true, true}, 1500}};
  StoreChoice choice(kOrdinary, true);
  run(choice, 300, before, kOrdinary);
  EXPECT_EQ(choice.best(), kOrdinary);
  run(choice, 300, after, kPeers);
  EXPECT_EQ(choice.best(), kPeers);
}

// Of what one rank stores, the others feel most.
TEST(StoreChoice, IsTriedByAllRanksTogether) {
  StoreChoice ranks[2] = {{kOrdinary, false}, {kOrdinary, false}};
  for (int call = 0; call < 2000; ++call) {
    StoreChoice::Turn turns[2] = {ranks[0].begin(), ranks[1].begin()};
    for (int rank = 0; rank < 2; ++rank) {
      const int cost = (turns[rank].stores.peers ? 400 : 500) + 100 * rank;
      const int felt = turns[1 - rank].stores.peers ? 900 : 500;
      if (turns[rank].timed) ranks[rank].end(Nanos(cost + felt));
    }
  }
  for (const StoreChoice& rank : ranks) EXPECT_EQ(rank.best(), kOrdinary);
}

// Whoever only stores finds streaming a little faster; its reader finds it much slower, from call
// 1,000 on.
TEST(StoreChoice, OfARankThatOnlyStoresCountsItsReadersTime) {
  for (const bool may_stream_output : {false, true}) {
    StoreChoice stores({false, false}, may_stream_output, StoreRole::kStores);
    StoreChoice loads({false, false}, may_stream_output, StoreRole::kLoads);
    std::uint64_t told = 0;
    int streamed = 0;
    for (int call = 0; call < 10'000; ++call) {
      if (stores.asks() && told != 0) stores.take_advice(*unpack_load_times(7, told));
      const StoreChoice::Turn stored = stores.begin(), loaded = loads.begin();
      ASSERT_EQ(stored.timed, loaded.timed);
      if (stored.timed) {
        stores.end(Nanos(stored.stores.peers ? 2000 : 2500));
        const bool slow = call > 1000 && stored.stores.peers;
        loads.end(Nanos((slow ? 4000 : 1500) + (loaded.stores.output ? 0 : 500)));
        if (const auto advice = loads.advice()) told = pack_load_times(7, *advice);
      }
      if (call == 1000) {
        EXPECT_TRUE(stores.best().peers);
      }
      if (call > 2500 && stored.stores.peers) ++streamed;
    }
    EXPECT_LT(streamed, 100);
    EXPECT_EQ(loads.best().output, may_stream_output);
  }
}

TEST(LoadTimes, AreThoseOfTheSameCall) {
  const std::uint64_t word =
      pack_load_times(0xabcd1234, {Nanos(1600), Nanos(std::int64_t{1} << 40)});
  const auto times = unpack_load_times(0xabcd1234, word);
  ASSERT_TRUE(times);
  EXPECT_EQ((*times)[0], Nanos(1600));
  EXPECT_GT((*times)[1], Nanos(200'000'000));
  EXPECT_FALSE(unpack_load_times(0xabcd1235, word));
  EXPECT_FALSE(unpack_load_times(0, 0));
  EXPECT_GT((*unpack_load_times(1, pack_load_times(1, {Nanos(1), Nanos(1)})))[0], Nanos(0));
}

TEST(StoreChoice, NeverStreamsAnOutputThatStaysInTheCache) {
  const Times times{
      {{false, false}, 1000}, {{true, false}, 1}, {{false, true}, 1000}, {{true, true}, 1}};
  StoreChoice choice(kOrdinary, false);
  EXPECT_EQ(run(choice, 1000, times, kOutput) + run(choice, 1000, times, kBoth), 0);
}

// The first call after a change pays for what the caches hold.
TEST(StoreChoice, JudgesByTheCallsAfterTheFirst) {
  StoreChoice choice(kOrdinary, true);
  StreamingStores last;
  for (int call = 0; call < 300; ++call) {
    const auto [stores, timed] = choice.begin();
    if (timed) choice.end(Nanos((stores.output ? 900 : 1000) + (stores == last ? 0 : 1000)));
    last = stores;
  }
  EXPECT_TRUE(choice.best().output);
}

// Late peers and interrupted processes are no reason to change.
TEST(StoreChoice, StaysWhenSomeCallsTakeLonger) {
  StoreChoice choice(kOrdinary, true);
  int ordinary = 0;
  for (int call = 0; call < 2000; ++call) {
    const auto [stores, timed] = choice.begin();
    if (stores == kOrdinary) ++ordinary;
    if (timed) choice.end(Nanos((stores == kOrdinary ? 1000 : 1200) + (call % 3 == 0 ? 500 : 0)));
  }
  EXPECT_GT(ordinary, 1850);
}

TEST(StoreChoice, ACallThatFailedIsForgotten) {
  const Times times{
      {{false, false}, 1000}, {{true, false}, 900}, {{false, true}, 1400}, {{true, true}, 700}};
  StoreChoice choice(kOrdinary, true);
  for (int call = 0; call < 300; ++call) {
    choice.begin();
    run(choice, 1, times, kBoth);
  }
  EXPECT_EQ(choice.best(), kBoth);
}

}  // namespace
}  // namespace tutti::exec
