#include "src/lower/tidy.hpp"

#include <gtest/gtest.h>

namespace tutti::lower {
namespace {

using Pieces = std::vector<std::uint32_t>;

Operand operand(ProgramMemory memory, Pieces pieces, ir::FormatId format = ir::kPlain) {
  Operand made;
  made.memory = memory;
  made.pieces = std::move(pieces);
  made.format = format;
  return made;
}
DraftOp combine(std::vector<Operand> sources, std::vector<Operand> destinations) {
  DraftOp op;
  op.op.like = destinations.front().pieces;
  op.op.sources = std::move(sources);
  op.op.destinations = std::move(destinations);
  return op;
}

constexpr auto kIn = ProgramMemory::kInput, kOut = ProgramMemory::kOutput,
               kTmp = ProgramMemory::kScratch, kPeer = ProgramMemory::kSlot;

class SkipCopies : public testing::Test {
 protected:
  SkipCopies() { request_.in_place = true; }
  void skip() { skip_copies_of_own_input(draft_, {request_, 2, 0}); }

  ir::Request request_{Collective::kAllReduce, 2, 0, true, {}};
  Draft draft_;
};

TEST_F(SkipCopies, ReadsTheInputWhereTheSameOpOverwritesIt) {
  draft_.ops = {combine({operand(kIn, {0})}, {operand(kTmp, {5})}),
                combine({operand(kPeer, {0}), operand(kTmp, {5})}, {operand(kOut, {0})})};
  skip();
  EXPECT_TRUE(draft_.ops[0].dead);
  EXPECT_EQ(draft_.ops[1].op.sources[1], operand(kIn, {0}));
}

TEST_F(SkipCopies, KeepsACopyThatSomebodyElseReadsOrThatIsEncoded) {
  draft_.ops = {combine({operand(kIn, {0})}, {operand(kTmp, {5})}),
                combine({operand(kTmp, {5})}, {operand(kTmp, {6})}),
                combine({operand(kPeer, {0}), operand(kTmp, {5})}, {operand(kOut, {0})})};
  skip();
  EXPECT_FALSE(draft_.ops[0].dead);
  draft_.ops = {combine({operand(kIn, {0})}, {operand(kTmp, {5}, 1)}),
                combine({operand(kPeer, {0}), operand(kTmp, {5}, 1)}, {operand(kOut, {0})})};
  skip();
  EXPECT_FALSE(draft_.ops[0].dead) << "what it reads is rounded";
}

TEST_F(SkipCopies, KeepsACopyOfWhatIsOverwrittenBefore) {
  draft_.ops = {combine({operand(kIn, {0})}, {operand(kTmp, {5})}),
                combine({operand(kPeer, {1})}, {operand(kOut, {0})}),
                combine({operand(kPeer, {0}), operand(kTmp, {5})}, {operand(kOut, {0})})};
  skip();
  EXPECT_FALSE(draft_.ops[0].dead);
}

TEST(DropUnreadScratch, FollowsChainsOfOpsThatNobodyNeeds) {
  Draft draft;
  draft.ops = {combine({operand(kIn, {0})}, {operand(kTmp, {1})}),
               combine({operand(kTmp, {1})}, {operand(kTmp, {2})}),
               combine({operand(kIn, {0})}, {operand(kTmp, {3}), operand(kOut, {0})})};
  drop_unread_scratch(draft);
  EXPECT_TRUE(draft.ops[0].dead);
  EXPECT_TRUE(draft.ops[1].dead);
  EXPECT_FALSE(draft.ops[2].dead);
  EXPECT_EQ(draft.ops[2].op.destinations.size(), 1U);
}

TEST(DropUnreadScratch, KeepsWhatIsReceived) {
  Draft draft;
  draft.ops = {combine({}, {operand(kTmp, {1})})};
  draft.ops[0].op.kind = OpKind::kRecv;
  drop_unread_scratch(draft);
  EXPECT_FALSE(draft.ops[0].dead) << "its sender sends it all the same";
}

}  // namespace
}  // namespace tutti::lower
