// Where a wrong element comes from, and what the machine's limit is made of.
#include "tools/bench/wrong.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "tools/bench/limit.hpp"

namespace tutti::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Shape floats(Collective test, Rank ranks, std::size_t count, Rank root = 0) {
  return {test, DataType::kFloat32, ReduceOp::kSum, ranks, root, count};
}

// --------------------------------------------------------------------------------------- chunks

TEST(WrongChunk, OfATwoShotIsAddedUpByTheRankOfItsNumber) {
  const Shape shape = floats(Collective::kAllReduce, 4, 1024);
  const auto origin = chunk_origin(shape, false, "two_shot", 0, 517);
  ASSERT_TRUE(origin);
  EXPECT_EQ(origin->chunk, 2u);
  EXPECT_EQ(origin->chunks, 4u);
  EXPECT_EQ(origin->begin, 512u);
  EXPECT_EQ(origin->end, 768u);
  EXPECT_EQ(origin->owner, 2);
  EXPECT_TRUE(origin->reduced);
  EXPECT_THAT(origin->path, ElementsAre(2));
}

TEST(WrongChunk, OfAOneShotIsTheReceiversOwnWork) {
  const auto origin = chunk_origin(floats(Collective::kAllReduce, 3, 8), false, "one_shot", 1, 3);
  ASSERT_TRUE(origin);
  EXPECT_EQ(origin->owner, 1);
  EXPECT_THAT(origin->path, IsEmpty());
}

TEST(WrongChunk, OfARingGoesAroundFromItsOwner) {
  const Shape shape = floats(Collective::kAllReduce, 4, 1024);
  const auto origin = chunk_origin(shape, true, "ring", 1, 800);  // chunk 3: 3 -> 0 -> 1
  ASSERT_TRUE(origin);
  EXPECT_EQ(origin->chunk, 3u);
  EXPECT_EQ(origin->owner, 3);
  EXPECT_THAT(origin->path, ElementsAre(3, 0));
}

TEST(WrongChunk, OfWhatIsOnlyMovedIsTheInputOfWhomTheBlockBelongsTo) {
  for (const Collective test : {Collective::kAllGather, Collective::kAllToAll,
                                Collective::kBroadcast, Collective::kGather, Collective::kScatter})
    for (const ir::Algorithm& algorithm : algorithms::all())
      for (const bool in_place : {false, true})
        for (Rank rank = 0; rank < 5; ++rank) {
          const Shape shape = floats(test, 5, 7, 3);
          for (std::size_t index = 0; index < blocks_of(shape, rank).recv * 7; index += 3) {
            const auto origin = chunk_origin(shape, in_place, algorithm.name, rank, index);
            if (!origin) continue;
            EXPECT_EQ(origin->owner, origin_of(shape, rank, index / 7).rank)
                << algorithm.name << " " << test_name(test) << " rank " << rank << " " << index;
            EXPECT_FALSE(origin->reduced);
          }
        }
}

TEST(WrongChunk, HoldsTheElementInEverySchedule) {
  int traced = 0;
  for (const Collective test : all_tests())
    for (const ir::Algorithm& algorithm : algorithms::all()) {
      const Shape shape = floats(test, 6, 100);
      for (std::size_t index = 0; index < blocks_of(shape, 0).recv * 100; index += 33) {
        const auto origin = chunk_origin(shape, false, algorithm.name, 0, index);
        if (!origin) continue;
        EXPECT_TRUE(origin->begin <= index && index < origin->end) << algorithm.name;
        EXPECT_TRUE(origin->owner >= 0 && origin->owner < 6) << algorithm.name;
        ++traced;
      }
    }
  EXPECT_GT(traced, 50);
}

TEST(WrongChunk, IsUnknownWithoutASchedule) {
  EXPECT_FALSE(chunk_origin(floats(kSendRecv, 4, 8), false, "", 0, 0));
  EXPECT_FALSE(chunk_origin(floats(Collective::kAllReduce, 4, 8), false, "imagined", 0, 0));
  EXPECT_FALSE(chunk_origin(floats(Collective::kAllReduce, 4, 8), false, "bruck", 0, 0));
  EXPECT_FALSE(chunk_origin(floats(Collective::kAllReduce, 5000, 8), false, "ring", 0, 0));
}

TEST(WrongText, NamesRankIndexValuesAndChunk) {
  Findings findings;
  findings.wrong = 12;
  findings.first = Findings::First{800, 0x40400000, 0x40a00000};  // 3 and 5 as floats
  const Shape shape = floats(Collective::kAllReduce, 4, 1024);
  EXPECT_EQ(
      wrong_text(shape, false, "ring", 1, findings),
      "all_reduce of 1024 float elements, out of place, rank 1: element 800 (block 0) is wrong: "
      "expected 3, got 5; 12 wrong here; it lies in chunk 3 of 0..3 (elements 768 to 1023) of "
      "ring, added up by rank 3 and passed on by rank 0");
  EXPECT_THAT(wrong_text(shape, false, "", 1, findings), Not(HasSubstr("chunk")));
  findings.first.reset();
  EXPECT_THAT(wrong_text(shape, true, "ring", 1, findings), HasSubstr("12 bytes beyond"));
}

// ---------------------------------------------------------------------------------------- limit

TEST(Limit, CountsEveryByteThatMustBeLoadedOrStored) {
  const auto blocks = [](Collective test, bool in_place) {
    return least_traffic({test, DataType::kInt8, ReduceOp::kSum, 4, 1, 10}, in_place) / 10;
  };
  EXPECT_EQ(blocks(Collective::kAllReduce, false), 8u);  // 2 n S
  EXPECT_EQ(blocks(Collective::kAllReduce, true), 8u);
  EXPECT_EQ(blocks(Collective::kAllGather, false), 20u);  // n blocks loaded, n^2 stored
  EXPECT_EQ(blocks(Collective::kAllGather, true), 16u);
  EXPECT_EQ(blocks(Collective::kReduceScatter, false), 20u);
  EXPECT_EQ(blocks(Collective::kReduceScatter, true), 20u);
  EXPECT_EQ(blocks(Collective::kBroadcast, false), 5u);
  EXPECT_EQ(blocks(Collective::kBroadcast, true), 4u);
  EXPECT_EQ(blocks(Collective::kReduce, false), 5u);
  EXPECT_EQ(blocks(Collective::kReduce, true), 5u);
  EXPECT_EQ(blocks(Collective::kAllToAll, false), 32u);
  EXPECT_EQ(blocks(Collective::kGather, false), 8u);
  EXPECT_EQ(blocks(Collective::kGather, true), 6u);
  EXPECT_EQ(blocks(Collective::kScatter, true), 6u);
  EXPECT_EQ(blocks(kSendRecv, false), 8u);
}

TEST(Limit, OneRankInPlaceMovesNothing) {
  for (const Collective test : all_tests())
    EXPECT_EQ(least_traffic({test, DataType::kInt8, ReduceOp::kSum, 1, 0, 10}, true), 0u);
}

TEST(Limit, BandwidthIsInterpolatedBetweenProbes) {
  const CopyBandwidth bandwidth{{{1024, 80}, {4096, 40}}};
  EXPECT_DOUBLE_EQ(bandwidth.gb_s(8), 80);
  EXPECT_DOUBLE_EQ(bandwidth.gb_s(1024), 80);
  EXPECT_DOUBLE_EQ(bandwidth.gb_s(2048), 60);
  EXPECT_DOUBLE_EQ(bandwidth.gb_s(4096), 40);
  EXPECT_DOUBLE_EQ(bandwidth.gb_s(1 << 30), 40);
}

TEST(Limit, IsAHundredPercentWhenTrafficTakesAsLongAsACopy) {
  const CopyBandwidth bandwidth{{{1024, 16}}};
  const Shape shape = floats(Collective::kAllReduce, 4, 1000);  // 32000 bytes: 2 us at 16 GB/s
  EXPECT_DOUBLE_EQ(*limit_percent(shape, false, bandwidth, 2), 100);
  EXPECT_DOUBLE_EQ(*limit_percent(shape, false, bandwidth, 8), 25);
  EXPECT_FALSE(limit_percent(floats(Collective::kAllReduce, 4, 0), false, bandwidth, 2));
  EXPECT_FALSE(limit_percent(shape, false, bandwidth, 0));
}

TEST(Limit, ProbesReachTheLargestBufferAndNoFurtherThanMemory) {
  EXPECT_THAT(probe_sizes(8), ElementsAre(32 << 10));
  EXPECT_THAT(probe_sizes(1 << 20), ElementsAre(32 << 10, 256 << 10, 1 << 20));
  EXPECT_EQ(probe_sizes(std::size_t{1} << 40).back(), 64u << 20);
  EXPECT_LE(probe_sizes(std::size_t{1} << 40).size(), 5u);
}

}  // namespace
}  // namespace tutti::bench
