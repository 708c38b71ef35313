#include "src/lower/exclusive.hpp"

#include <gtest/gtest.h>

namespace tutti::lower {
namespace {

Operand of_rank(ProgramMemory memory, Rank owner, std::uint32_t chunk) {
  Operand made;
  made.memory = memory;
  made.owner = owner;
  made.pieces = {chunk};
  return made;
}
Op copy(const Operand& from, const Operand& to) {
  Op op;
  op.like = {0};
  op.sources = {from};
  op.destinations = {to};
  return op;
}
Lowered direct(bool in_place, std::vector<Op> of_0, std::vector<Op> of_1) {
  Lowered lowered;
  lowered.request = {Collective::kAllGather, 2, 0, in_place, {}};
  lowered.algorithm = "made up";
  lowered.protocol = ProgramProtocol::kDirect;
  lowered.programs.resize(2);
  lowered.programs[0].ops = std::move(of_0);
  lowered.programs[1].ops = std::move(of_1);
  return lowered;
}

constexpr auto kOwnOut = ProgramMemory::kOutput, kPeerIn = ProgramMemory::kPublished,
               kPeerOut = ProgramMemory::kPeerOutput;

TEST(Exclusive, LetsAnyNumberOfRanksReadWhatNobodyWrites) {
  const Op reads_1 = copy(of_rank(kPeerIn, 1, 0), of_rank(kOwnOut, kNoRank, 1));
  const Op reads_itself = copy(of_rank(kPeerIn, 1, 0), of_rank(kOwnOut, kNoRank, 1));
  EXPECT_TRUE(check_exclusive(direct(false, {reads_1}, {reads_itself})));
}

TEST(Exclusive, RefusesAPlaceThatOneWritesAndAnotherTouches) {
  const Op writes_1 = copy(of_rank(kPeerIn, 1, 0), of_rank(kPeerOut, 1, 1));
  const Op writes_own = copy(of_rank(kPeerIn, 0, 0), of_rank(kOwnOut, kNoRank, 1));
  EXPECT_TRUE(check_exclusive(direct(false, {writes_1}, {})));
  const Status both = check_exclusive(direct(false, {writes_1}, {writes_own}));
  ASSERT_FALSE(both);
  EXPECT_NE(both.error().what.find("of rank 1, which is written, with another rank"),
            std::string::npos);
}

TEST(Exclusive, KnowsThatInPlaceAnInputIsPartOfTheOutput) {
  const Op reads_1 = copy(of_rank(kPeerIn, 1, 0), of_rank(kOwnOut, kNoRank, 1));
  const Op writes_own_block = copy(of_rank(kPeerIn, 0, 0), of_rank(kOwnOut, kNoRank, 1));
  EXPECT_TRUE(check_exclusive(direct(false, {reads_1}, {writes_own_block})));
  EXPECT_FALSE(check_exclusive(direct(true, {reads_1}, {writes_own_block})));
}

TEST(Exclusive, SaysNothingOfOtherProtocols) {
  const Op writes_1 = copy(of_rank(kPeerIn, 1, 0), of_rank(kPeerOut, 1, 1));
  Lowered lowered = direct(false, {writes_1}, {writes_1});
  lowered.protocol = ProgramProtocol::kStaged;
  EXPECT_TRUE(check_exclusive(lowered));
}

}  // namespace
}  // namespace tutti::lower
