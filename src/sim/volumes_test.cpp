#include "src/sim/volumes.hpp"

#include <gtest/gtest.h>

#include "src/ir/builder.hpp"
#include "src/ir/sample_schedules.hpp"

namespace tutti::sim {
namespace {

using ir::in;
using ir::out;

/// Two chunks a block, and scratch of one chunk on rank 0 that is sized like the second of them.
ir::Schedule two_chunks() {
  ir::Builder build({Collective::kAllGather, 2, 0, false}, "sizes", 2);
  build.rank(0).scratch(in(1));
  return std::move(build).finish();
}

TEST(Volumes, CountTheBytesOfChunks) {
  const ir::Schedule schedule = two_chunks();
  const Volumes volumes(schedule, {48, 4}, 0);  // 192 bytes: units of 64, so chunks of 64 and 128
  EXPECT_EQ(volumes.slices(), 1U);
  EXPECT_EQ(volumes.bytes(0, in(0), 0), 64U);
  EXPECT_EQ(volumes.bytes(0, out(3), 0), 128U);
  EXPECT_EQ(volumes.bytes(0, out(0, 4), 0), 384U);
  EXPECT_EQ(volumes.bytes(0, out(1, 2, 2), 0), 256U);
  EXPECT_EQ(volumes.bytes(0, {ir::Space::kScratch, 0, 1, 1}, 0), 128U);
}

TEST(Volumes, CutEveryChunkInSlicesOfTheSameLength) {
  const ir::Schedule schedule = two_chunks();
  const Volumes volumes(schedule, {48, 4}, 50);  // 48 bytes are 12 elements
  ASSERT_EQ(volumes.slices(), 3U);
  const std::uint64_t of_short[] = {48, 16, 0};
  const std::uint64_t of_long[] = {48, 48, 32};
  for (std::uint32_t slice = 0; slice < 3; ++slice) {
    EXPECT_EQ(volumes.bytes(0, in(0), slice), of_short[slice]);
    EXPECT_EQ(volumes.bytes(0, in(1), slice), of_long[slice]);
    EXPECT_EQ(volumes.bytes(0, in(0, 2), slice), of_short[slice] + of_long[slice]);
  }
}

TEST(Volumes, HaveOneSliceWhereSlicesAreLongerThanChunks) {
  const ir::Schedule schedule = two_chunks();
  EXPECT_EQ(Volumes(schedule, {48, 4}, 1000).slices(), 1U);
  EXPECT_EQ(Volumes(schedule, {48, 4}, 1).slices(), 32U) << "a slice is an element at least";
  EXPECT_EQ(Volumes(schedule, {0, 4}, 16).slices(), 1U);
}

}  // namespace
}  // namespace tutti::sim
