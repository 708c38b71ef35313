#include "src/lower/slices.hpp"

#include <gtest/gtest.h>

namespace tutti::lower {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kRegion = 1024 * kKiB;

/// Of an all-reduce whose slots hold so many pieces.
Lowered staged(std::uint32_t slot_pieces) {
  Lowered lowered;
  lowered.request = {Collective::kAllReduce, 2, 0, false};
  lowered.max_slot_pieces = slot_pieces;
  lowered.slot_depth = 2;
  lowered.programs.resize(2);
  return lowered;
}

TEST(Slices, AreWholeChunksWhereThereIsLittleData) {
  EXPECT_EQ(slice_elements(staged(0), 16 * kKiB, 4, kRegion), 16 * kKiB) << "64 KiB";
  EXPECT_EQ(slice_elements(staged(0), 1, 4, kRegion), 16) << "at least a cache line";
}

TEST(Slices, AreAQuarterOfAChunkButNoShorterThan64KiB) {
  EXPECT_EQ(slice_elements(staged(0), 512 * kKiB, 1, kRegion), 128 * kKiB);
  EXPECT_EQ(slice_elements(staged(0), 128 * kKiB, 1, kRegion), 64 * kKiB);
}

TEST(Slices, OfMessagesAreNoLongerThan256KiB) {
  EXPECT_EQ(slice_elements(staged(0), 64 * 1024 * kKiB, 1, kRegion), 256 * kKiB);
}

TEST(Slices, OfSlotsFitHalfTheRegion) {
  EXPECT_EQ(slice_elements(staged(4), 64 * 1024 * kKiB, 1, kRegion), kRegion / 2 / 8);
}

TEST(Slices, BeginAtBlocksOfAFormat) {
  for (const std::size_t block : {32, 4096, 65536})
    for (const std::size_t staging : {std::size_t{64} * kKiB, kRegion}) {
      const std::size_t slice = slice_elements(staged(4), 1024 * kKiB + 5, 4, staging, {block});
      EXPECT_EQ(slice % block, 0U) << block;
      EXPECT_GE(slice, block);
    }
  EXPECT_EQ(slice_elements(staged(4), 1024 * kKiB, 4, kRegion, {32}),
            slice_elements(staged(4), 1024 * kKiB, 4, kRegion));
}

TEST(Slices, AreWholeChunksInProgramsOfOneRound) {
  Lowered direct = staged(0);
  direct.protocol = ProgramProtocol::kDirect;
  EXPECT_EQ(slice_elements(direct, 64 * 1024 * kKiB, 1, kRegion), 64 * 1024 * kKiB);
}

}  // namespace
}  // namespace tutti::lower
