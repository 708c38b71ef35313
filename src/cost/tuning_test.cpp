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
  const Arrangement on_hosts{8, 3, 4, 0, 1}, on_machines{8, 3, 4, 0, 2, 25'000};
  EXPECT_EQ(describe({Collective::kAllToAll, 18}, {4, 1, 4}), "all_to_all, 4 ranks, up to 256 KiB");
  EXPECT_EQ(describe({Collective::kReduce, kLargestSize}, {2, 1, 2}),
            "reduce, 2 ranks, up to 1 EiB");
  EXPECT_EQ(
      describe({Collective::kReduce, 10}, on_hosts),
      "reduce, 8 ranks on 3 hosts (at most 4 on one, 1 machine, unknown Mbit/s), up to 1 KiB");
  EXPECT_EQ(describe({Collective::kReduce, 10}, on_machines),
            "reduce, 8 ranks on 3 hosts (at most 4 on one, 2 machines, 25000 Mbit/s), up to 1 KiB");
}

TEST(Tuning, AVerdictIsOnTheLargerBufferOfEachCallOfItsClass) {
  constexpr std::int32_t kRanks = 3;
  for (int c = 0; c < 8; ++c) {
    const auto collective = static_cast<Collective>(c);
    const bool gathers = collective == Collective::kAllGather || collective == Collective::kGather;
    MeasuredTable table;
    for (std::uint8_t size = 0; size <= 24; ++size)
      table.add(verdict_on({collective, size}, {kRanks, 1, kRanks}, {std::to_string(size)}, 1));
    for (const std::size_t input : {0, 1, 2, 3, 4, 1000, 1024, 1025, 1 << 24}) {
      const MeasuredRange* const found =
          table.find(collective, {kRanks, 1, kRanks}, input * (gathers ? kRanks : 1));
      ASSERT_NE(found, nullptr) << input;
      EXPECT_TRUE(check(*found));
      EXPECT_EQ(found->way.algorithm, std::to_string(size_class(input))) << input;
    }
  }
  const Arrangement most{INT32_MAX, 1, INT32_MAX};
  EXPECT_TRUE(check(verdict_on({Collective::kGather, kLargestSize}, most, {"ring"})));
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
