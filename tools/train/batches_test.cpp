#include "tools/train/batches.hpp"

#include <numeric>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::trainer {
namespace {

std::vector<std::uint8_t> bytes(std::size_t count) {
  std::vector<std::uint8_t> text(count);
  std::iota(text.begin(), text.end(), std::uint8_t{0});
  return text;
}

TEST(SamplesOf, GivesEverySampleToOnePassOfOneRank) {
  for (const std::size_t batch : {1U, 5U, 8U, 24U, 31U})
    for (int ranks = 1; ranks <= 5; ++ranks)
      for (int passes = 1; passes <= 4; ++passes) {
        std::size_t next = 0;
        for (int pass = 0; pass < passes; ++pass)
          for (int rank = 0; rank < ranks; ++rank) {
            const SampleRange range = samples_of(batch, ranks, passes, rank, pass);
            EXPECT_EQ(range.begin, next);
            next += range.count;
          }
        EXPECT_EQ(next, batch);
      }
}

TEST(SamplesOf, CutsABatchAlikeForEveryNumberOfRanksWithAsManyParts) {
  for (int ranks : {1, 2, 4, 8})
    for (int part = 0; part < 8; ++part)
      EXPECT_EQ(samples_of(32, ranks, 8 / ranks, part % ranks, part / ranks),
                (SampleRange{static_cast<std::size_t>(4 * part), 4}));
}

TEST(Windows, StartWhereTheSeedAndTheSampleSay) {
  const auto text = bytes(100);
  const auto windows = Windows::create(text, 10, "text");
  ASSERT_TRUE(windows);
  EXPECT_EQ(windows->start(7, 3), Windows::create(text, 10, "text")->start(7, 3));
  std::set<std::size_t> starts;
  for (std::uint64_t sample = 0; sample < 2000; ++sample) {
    const std::size_t start = windows->start(7, sample);
    EXPECT_EQ(windows->at(start).size(), 11U);
    EXPECT_EQ(windows->at(start)[0], start);
    starts.insert(start);
  }
  EXPECT_EQ(starts.size(), 90U) << "all that there are: 100 - 10";
}

TEST(Windows, DifferFromSeedToSeed) {
  const auto text = bytes(250);
  const auto windows = Windows::create(text, 2, "text");
  int equal = 0;
  for (std::uint64_t sample = 0; sample < 1000; ++sample)
    equal += windows->start(1, sample) == windows->start(2, sample) ? 1 : 0;
  EXPECT_LT(equal, 20);
}

TEST(Windows, TakeATextOfOneSampleAndRefuseAShorterOne) {
  const auto text = bytes(11);
  const auto windows = Windows::create(text, 10, "text");
  ASSERT_TRUE(windows);
  EXPECT_EQ(windows->start(1, 5), 0U);
  EXPECT_EQ(windows->in_a_row(), 1U);
  const auto none = Windows::create(text, 11, "'x.txt'");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kWrongData);
  EXPECT_THAT(none.error().what, testing::HasSubstr("'x.txt' has 11 bytes, and a sample takes 12"));
}

TEST(Windows, AreSpreadOverTheTextForValidation) {
  const auto text = bytes(101);
  const auto windows = Windows::create(text, 10, "text");
  EXPECT_THAT(windows->spread(4), testing::ElementsAre(0, 20, 50, 70));
  EXPECT_EQ(windows->spread(1000).size(), 10U);
  EXPECT_EQ(windows->spread(1000).back(), 90U);
  EXPECT_TRUE(windows->spread(0).empty());
}

TEST(Mixed, IsTheSameOnEveryMachine) {
  EXPECT_EQ(mixed(0, 0), mixed(0, 0));
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    for (std::uint64_t number = 0; number < 50; ++number) seen.insert(mixed(seed, number));
  EXPECT_EQ(seen.size(), 2500U);
}

}  // namespace
}  // namespace tutti::trainer
