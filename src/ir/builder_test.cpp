#include "src/ir/builder.hpp"

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::ir {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Request kAllReduce2{Collective::kAllReduce, 2, 0, false};
constexpr Request kAllReduce2InPlace{Collective::kAllReduce, 2, 0, true};

TEST(Builder, AReaderDependsOnTheWriter) {
  Builder build(kAllReduce2, "test", 2);
  build.rank(0).recv(out(0), 1).recv(out(1), 1).send(out(0), 1).send(out(0, 2), 1);
  const Schedule schedule = std::move(build).finish();
  const auto& steps = schedule.programs[0].steps;
  EXPECT_THAT(steps[0].deps, IsEmpty());
  EXPECT_THAT(steps[1].deps, IsEmpty());
  EXPECT_THAT(steps[2].deps, ElementsAre(0));
  EXPECT_THAT(steps[3].deps, ElementsAre(0, 1));
}

TEST(Builder, AWriterDependsOnTheReadersSinceTheLastWrite) {
  Builder build(kAllReduce2, "test", 1);
  build.rank(0).recv(out(0), 1).send(out(0), 1).send(out(0), 1).recv(out(0), 1);
  const Schedule schedule = std::move(build).finish();
  EXPECT_THAT(schedule.programs[0].steps[3].deps, ElementsAre(1, 2));
}

TEST(Builder, AWriterDependsOnAWriterThatNobodyRead) {
  Builder build(kAllReduce2, "test", 1);
  build.rank(0).recv(out(0), 1).recv(out(0), 1);
  const Schedule schedule = std::move(build).finish();
  EXPECT_THAT(schedule.programs[0].steps[1].deps, ElementsAre(0));
}

TEST(Builder, AReductionReadsBothOperands) {
  Builder build(kAllReduce2, "test", 1);
  auto rank = build.rank(0);
  const ChunkSet tmp = rank.scratch(out(0));
  rank.copy(in(0), out(0)).recv(tmp, 1).reduce(tmp, out(0)).reduce(in(0), out(0));
  const Schedule schedule = std::move(build).finish();
  EXPECT_THAT(schedule.programs[0].steps[2].deps, ElementsAre(0, 1));
  EXPECT_THAT(schedule.programs[0].steps[3].deps, ElementsAre(2));
}

TEST(Builder, StridedSetsTouchOnlyTheirChunks) {
  Builder build(kAllReduce2, "test", 6);
  build.rank(0).recv(out(0, 3, 2), 1).recv(out(1, 3, 2), 1).send(out(2, 2, 2), 1);
  const Schedule schedule = std::move(build).finish();
  EXPECT_THAT(schedule.programs[0].steps[1].deps, IsEmpty());
  EXPECT_THAT(schedule.programs[0].steps[2].deps, ElementsAre(0));
}

TEST(Builder, InPlaceTheInputIsTheOutput) {
  Builder build(kAllReduce2InPlace, "test", 1);
  build.rank(0).send(in(0), 1).recv(out(0), 1).send(in(0), 1);
  const Schedule schedule = std::move(build).finish();
  EXPECT_THAT(schedule.programs[0].steps[1].deps, ElementsAre(0));
  EXPECT_THAT(schedule.programs[0].steps[2].deps, ElementsAre(1));
}

TEST(Builder, InPlaceAllGatherAliasesOnlyTheOwnBlock) {
  Builder build({Collective::kAllGather, 3, 0, true}, "test", 2);
  build.rank(2).send(in(1), 0).recv(out(1), 0).recv(out(5), 0);
  const Schedule schedule = std::move(build).finish();
  EXPECT_THAT(schedule.programs[2].steps[1].deps, IsEmpty());
  EXPECT_THAT(schedule.programs[2].steps[2].deps, ElementsAre(0));
}

TEST(Builder, InPlaceReduceScatterAliasesTheOwnInputBlock) {
  Builder build({Collective::kReduceScatter, 3, 0, true}, "test", 1);
  build.rank(1).send(in(0), 0).send(in(1), 0).recv(out(0), 0);
  const Schedule schedule = std::move(build).finish();
  EXPECT_THAT(schedule.programs[1].steps[2].deps, ElementsAre(1));
}

TEST(Builder, ACopyOntoItselfVanishes) {
  Builder build(kAllReduce2InPlace, "test", 2);
  build.rank(0).copy(in(0, 2), out(0, 2)).copy(in(0), out(1));
  const Schedule schedule = std::move(build).finish();
  ASSERT_EQ(schedule.programs[0].steps.size(), 1U);
  EXPECT_EQ(schedule.programs[0].steps[0].dst, out(1));
}

TEST(Builder, ScratchIsNumberedInOrderAndSizedLikeItsModel) {
  Builder build(kAllReduce2, "test", 8);
  auto rank = build.rank(1);
  EXPECT_EQ(rank.scratch(out(3)), (ChunkSet{Space::kScratch, 0, 1, 1}));
  const ChunkSet strided = rank.scratch(in(1, 3, 2));
  EXPECT_EQ(strided, (ChunkSet{Space::kScratch, 1, 3, 1}));
  rank.scratch(strided);
  const Schedule schedule = std::move(build).finish();
  EXPECT_THAT(schedule.programs[1].scratch, ElementsAre(3, 1, 3, 5, 1, 3, 5));
  EXPECT_THAT(schedule.programs[0].scratch, IsEmpty());
}

TEST(Builder, CountsLanesAndNormalisesTheStrideOfASingleChunk) {
  Builder build(kAllReduce2, "ring", 4);
  build.rank(0).send(in(0, 1, 3), 1, 2);
  build.rank(1).recv(out(0), 0, 2);
  const Schedule schedule = std::move(build).finish();
  EXPECT_EQ(schedule.lanes, 3U);
  EXPECT_EQ(schedule.algorithm, "ring");
  EXPECT_EQ(schedule.chunks_per_block, 4U);
  EXPECT_EQ(schedule.programs[0].steps[0].src.stride, 1U);
}

}  // namespace
}  // namespace tutti::ir
