#include "src/ir/embed.hpp"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ir/verify.hpp"

namespace tutti::ir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ChunkSet in_output(std::uint32_t chunk) { return {Space::kOutput, chunk, 1, 1}; }

/// Both ranks send their block to the other.
Schedule swap(bool in_place) {
  Builder build({.collective = Collective::kAllGather, .ranks = 2, .in_place = in_place}, "swap",
                1);
  for (Rank r = 0; r < 2; ++r) {
    const auto own = static_cast<std::uint32_t>(r);
    build.rank(r).send(in(0), 1 - r).copy(in(0), out(own)).recv(out(1 - own), 1 - r);
  }
  return std::move(build).finish();
}

TEST(RegionOf, MakesAsFewSetsAsKeepTheOrder) {
  const std::vector<std::uint32_t> chunks = {4, 6, 8, 3, 4, 5, 9};
  EXPECT_THAT(region_of(Space::kInput, chunks), ElementsAre(in(4, 3, 2), in(3, 3), in(9)));
}

TEST(Embed, MakesAnAllGatherOfFourOutOfSwapsOfTwo) {
  Builder whole({.collective = Collective::kAllGather, .ranks = 4}, "swaps", 1);
  // First with the neighbour, then both blocks with the pair opposite.
  for (Rank first : {0, 2}) {
    const auto base = static_cast<std::uint32_t>(first);
    ASSERT_TRUE(embed(swap(false),
                      {{first, first + 1},
                       [](Rank, std::uint32_t) { return Region{in(0)}; },
                       [=](Rank, std::uint32_t c) { return Region{out(base + c)}; }},
                      whole));
  }
  for (Rank low : {0, 1}) {
    const auto pair = [](std::uint32_t p) { return Region{out(2 * p, 2)}; };
    ASSERT_TRUE(embed(swap(true),
                      {{low, low + 2},
                       [=](Rank m, std::uint32_t) { return pair(static_cast<std::uint32_t>(m)); },
                       [=](Rank, std::uint32_t c) { return pair(c); }},
                      whole));
  }
  const Schedule schedule = std::move(whole).finish();
  const auto proof = verify(schedule);
  ASSERT_TRUE(proof) << proof.error().what;
  EXPECT_EQ(proof->rounds, 2U);
  EXPECT_EQ(proof->max_chunks_sent, 3U);
}

TEST(Embed, LeavesOutWhatIsEmptyOnBothSides) {
  Builder whole({.collective = Collective::kBroadcast, .ranks = 2}, "half", 1);
  // Rank 1 has nothing to give: only rank 0's block moves.
  ASSERT_TRUE(embed(swap(false),
                    {{0, 1},
                     [](Rank m, std::uint32_t) { return m == 0 ? Region{in(0)} : Region{}; },
                     [](Rank, std::uint32_t c) { return c == 0 ? Region{out(0)} : Region{}; }},
                    whole));
  const Schedule schedule = std::move(whole).finish();
  EXPECT_EQ(schedule.programs[1].steps.size(), 1U);
  EXPECT_TRUE(verify(schedule));
}

TEST(Embed, CutsAMessageWhereItsEndsLieDifferently) {
  Builder whole({.collective = Collective::kAllGather, .ranks = 2}, "cut", 4);
  const Region scattered = {in(1), in(0), in(3), in(2)};
  ASSERT_TRUE(embed(swap(false),
                    {{0, 1},
                     [=](Rank, std::uint32_t) { return scattered; },
                     [](Rank, std::uint32_t c) {
                       return Region{in_output(4 * c + 1), in_output(4 * c), in_output(4 * c + 3),
                                     in_output(4 * c + 2)};
                     }},
                    whole));
  const Schedule schedule = std::move(whole).finish();
  const auto proof = verify(schedule, {.fifo_depth = 1});
  ASSERT_TRUE(proof) << proof.error().what;
  EXPECT_EQ(schedule.lanes, 3U);  // 1 | 0, 3 | 2
  EXPECT_EQ(proof->rounds, 1U);
}

TEST(Embed, RefusesALeafWhoseEndsHoldDifferentAmounts) {
  Builder whole({.collective = Collective::kAllGather, .ranks = 2}, "wrong", 2);
  const Status status =
      embed(swap(false),
            {{0, 1},
             [](Rank, std::uint32_t) { return Region{in(0, 2)}; },
             [](Rank, std::uint32_t c) { return Region{out(2 * c, c == 0 ? 2 : 1)}; }},
            whole);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kUnsupported);
  EXPECT_THAT(status.error().what, HasSubstr("swap needs blocks of one size"));
}

TEST(Embed, RefusesAsManyMembersAsTheLeafHasNot) {
  Builder whole({.collective = Collective::kAllGather, .ranks = 3}, "wrong", 1);
  EXPECT_FALSE(embed(swap(false), {{0, 1, 2}, {}, {}}, whole));
}

}  // namespace
}  // namespace tutti::ir
