#include "src/cost/tuning.hpp"

#include <array>
#include <limits>

#include <gtest/gtest.h>

namespace tutti {
namespace {

using Figures = std::vector<std::optional<std::uint64_t>>;

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

TEST(Tuning, ClassesEndAtPowersOfTwo) {
  EXPECT_EQ(size_class(0), 0);
  EXPECT_EQ(size_class(1), 0);
  EXPECT_EQ(size_class(2), 1);
  EXPECT_EQ(size_class(32 * 1024), 15);
  EXPECT_EQ(size_class(32 * 1024 + 1), 16);
  EXPECT_EQ(size_class(std::numeric_limits<std::size_t>::max()), kLargestSize);
  EXPECT_EQ(describe(CallClass{Collective::kAllToAll, 4, 18}),
            "all_to_all, 4 ranks, up to 256 KiB");
  EXPECT_EQ(describe(CallClass{Collective::kReduce, 2, kLargestSize}),
            "reduce, 2 ranks, up to 8 EiB");
  EXPECT_EQ(
      describe(CallClass{Collective::kReduce, 8, 10, 3, 4}),
      "reduce, 8 ranks on 3 hosts (at most 4 on one, 1 machine, unknown Mbit/s), up to 1 KiB");
  EXPECT_EQ(describe(CallClass{Collective::kReduce, 8, 10, 3, 4, 2, 25'000}),
            "reduce, 8 ranks on 3 hosts (at most 4 on one, 2 machines, 25000 Mbit/s), up to 1 KiB");
}

TEST(Tuning, ClassesTellPlacementsApart) {
  const CallClass one_host{Collective::kAllReduce, 4, 17};
  EXPECT_EQ(one_host, (CallClass{Collective::kAllReduce, 4, 17, 1, 4}));
  EXPECT_NE(one_host, (CallClass{Collective::kAllReduce, 4, 17, 2, 2}));
  EXPECT_NE((CallClass{Collective::kAllReduce, 4, 17, 2, 3}),
            (CallClass{Collective::kAllReduce, 4, 17, 2, 2}));
  EXPECT_NE((CallClass{Collective::kAllReduce, 4, 17, 2, 2, 2}),
            (CallClass{Collective::kAllReduce, 4, 17, 2, 2, 1}));
  EXPECT_NE((CallClass{Collective::kAllReduce, 4, 17, 2, 2, 2, 1'000}),
            (CallClass{Collective::kAllReduce, 4, 17, 2, 2, 2, 10'000}));
}

TEST(Tuning, ALateRankDoesNotCountAgainstATry) {
  const Try ranks[] = {{1000, 9100}, {9000, 9200}, {2000, 9050}};
  EXPECT_EQ(since_last_came(ranks), 200U);
}

TEST(Tuning, ATryThatSomeRankDidNotMakeHasNoTime) {
  const std::array<std::array<Try, 2>, 4> impossible = {{{{{1000, 2000}, {0, 0}}},
                                                         {{{1000, 2000}, {1500, 0}}},
                                                         {{{1000, 2000}, {1500, 1499}}},
                                                         {{{1000, 2000}, {kHuge, kHuge}}}}};
  for (const auto& ranks : impossible) EXPECT_EQ(since_last_came(ranks), std::nullopt);
  EXPECT_EQ(since_last_came({}), std::nullopt);
}

TEST(Tuning, WorkBeforeTheLastRankCameCountsOnceTheCallBeforeIsOver) {
  const Try before[] = {{100, 900}, {100, 1500}};
  const Try ranks[] = {{1000, 9100}, {9000, 9200}};
  EXPECT_EQ(since_first_came(ranks, before), 7700U);
  const Try long_ago[] = {{1, 2}, {1, 2}};
  EXPECT_EQ(since_first_came(ranks, long_ago), 8200U);
  const Try not_made[] = {{1, 2}, {0, 0}};
  EXPECT_EQ(since_first_came(ranks, not_made), std::nullopt);
  EXPECT_EQ(since_first_came(not_made, before), std::nullopt);
  const Try forever[] = {{1, kHuge}, {1, 2}};
  EXPECT_EQ(since_first_came(ranks, forever), std::nullopt);
}

TEST(Tuning, OfRanksWithoutACommonClockTheShortestAndTheLongestTimeAreKnown) {
  const Try ranks[] = {{1000, 9100}, {90, 290}, {777'000, 777'500}};
  EXPECT_EQ(shortest(ranks), 200U);
  EXPECT_EQ(longest(ranks), 8100U);
  const Try not_made[] = {{1000, 9100}, {0, 0}};
  EXPECT_EQ(shortest(not_made), std::nullopt);
  EXPECT_EQ(longest(not_made), std::nullopt);
  EXPECT_EQ(shortest({}), std::nullopt);
}

TEST(Tuning, NumbersOfAPeerMayBeAnything) {
  const Try ranks[] = {{1, kHuge}, {2, 3}};
  EXPECT_EQ(since_last_came(ranks), kHuge - 2);
}

TEST(Tuning, TriesThatChanceMadeSlowOrFastDoNotCount) {
  EXPECT_EQ(typical(Figures{7, 900, 900, 900, 5, 6, 1, 8}), 6U);
  EXPECT_EQ(typical(Figures{7, std::nullopt, 5, std::nullopt}), 5U);
  EXPECT_EQ(typical(Figures{7, std::nullopt, std::nullopt}), std::nullopt);
  EXPECT_EQ(typical(Figures{}), std::nullopt);
}

TEST(Tuning, WhatIsInUseStaysUnlessAnotherIsClearlyFaster) {
  EXPECT_EQ(fastest(Figures{1000, 910}), 0U);
  EXPECT_EQ(fastest(Figures{1000, 890}), 1U);
  EXPECT_EQ(fastest(Figures{1000, 890, 880}), 2U);
  EXPECT_EQ(fastest(Figures{1000, std::nullopt, 880}), 2U);
  EXPECT_EQ(fastest(Figures{1000, 1200, 1100}), 0U);
}

TEST(Tuning, NothingIsFasterThanWhatWasNotMeasured) {
  EXPECT_EQ(fastest(Figures{std::nullopt, 900}), std::nullopt);
  EXPECT_EQ(fastest(Figures{1000, std::nullopt}), std::nullopt);
  EXPECT_EQ(fastest(Figures{1000}), std::nullopt);
  EXPECT_EQ(fastest(Figures{}), std::nullopt);
}

}  // namespace
}  // namespace tutti
