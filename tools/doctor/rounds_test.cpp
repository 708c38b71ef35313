#include "tools/doctor/rounds.hpp"

#include <set>

#include <gtest/gtest.h>

namespace tutti::doctor {
namespace {

/// How often each pair comes; fails where a host is in two pairs of a round.
std::multiset<Pair> checked(const std::vector<Round>& rounds, std::size_t hosts) {
  std::multiset<Pair> all;
  for (const Round& round : rounds) {
    std::set<std::size_t> busy;
    for (const Pair& pair : round) {
      EXPECT_LT(pair.first, pair.second);
      EXPECT_LT(pair.second, hosts);
      EXPECT_TRUE(busy.insert(pair.first).second);
      EXPECT_TRUE(busy.insert(pair.second).second);
      all.insert(pair);
    }
  }
  return all;
}

TEST(Rounds, EveryPairMeetsOnceInTheFewestRounds) {
  for (std::size_t hosts = 0; hosts <= 33; ++hosts) {
    const auto rounds = all_pairs(hosts);
    const std::size_t fewest = hosts < 2 ? 0 : hosts - 1 + hosts % 2;
    EXPECT_EQ(rounds.size(), fewest) << hosts;
    const auto pairs = checked(rounds, hosts);
    EXPECT_EQ(pairs.size(), hosts < 2 ? 0 : hosts * (hosts - 1) / 2) << hosts;
    EXPECT_EQ(std::set<Pair>(pairs.begin(), pairs.end()).size(), pairs.size()) << hosts;
  }
}

TEST(Rounds, ASampleHasTheRingAndAsManyPairsAgain) {
  for (const std::size_t hosts : {33, 34, 100, 257}) {
    const auto pairs = checked(sampled_pairs(hosts, 7), hosts);
    EXPECT_EQ(pairs.size(), 2 * hosts);
    for (std::size_t i = 0; i + 1 < hosts; ++i) EXPECT_EQ(pairs.count({i, i + 1}), 1U) << i;
    EXPECT_EQ(pairs.count({0, hosts - 1}), 1U);
  }
}

TEST(Rounds, ASampleOfFewHostsIsAllPairs) {
  EXPECT_EQ(sampled_pairs(1, 7).size(), 0U);
  EXPECT_EQ(checked(sampled_pairs(2, 7), 2).size(), 1U);
  EXPECT_EQ(checked(sampled_pairs(4, 7), 4).size(), 6U);
}

TEST(Rounds, AnotherSeedTakesAnotherSample) {
  EXPECT_NE(sampled_pairs(64, 1), sampled_pairs(64, 2));
  EXPECT_EQ(sampled_pairs(64, 1), sampled_pairs(64, 1));
}

}  // namespace
}  // namespace tutti::doctor
