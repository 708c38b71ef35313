#include "src/exec/announcements.hpp"

#include <limits>
#include <thread>

#include <gmock/gmock.h>

#include "src/exec/team_of_two.hpp"

namespace tutti::exec {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

CallSignature sum_of(std::uint64_t count) {
  return {Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, count};
}

class AnnouncementsOfTwo : public TeamOfTwo {
 protected:
  Announcements ranks_[2] = {Announcements(*teams_[0]), Announcements(*teams_[1])};
};

TEST_F(AnnouncementsOfTwo, LetEqualCallsPass) {
  for (std::uint64_t call = 0; call < 3 * kAnnounced; ++call)
    for (Announcements& rank : ranks_) EXPECT_TRUE(rank.announce(sum_of(call)));
}

TEST_F(AnnouncementsOfTwo, ShowBothCallsToTheLaterRank) {
  ASSERT_TRUE(ranks_[0].announce(sum_of(7)));
  const Status differs = ranks_[1].announce(sum_of(8));
  ASSERT_FALSE(differs);
  EXPECT_EQ(differs.error().code, Code::kInvalidUsage);
  EXPECT_EQ(differs.error().peer, 0);
  EXPECT_THAT(differs.error().what, AllOf(HasSubstr("number 1"), HasSubstr("count=8"),
                                          HasSubstr("the peer calls"), HasSubstr("count=7")));
}

TEST_F(AnnouncementsOfTwo, SayNothingOfCallsThatWereOverwritten) {
  for (std::uint64_t call = 0; call < kAnnounced; ++call)
    ASSERT_TRUE(ranks_[0].announce(sum_of(call)));
  ASSERT_TRUE(ranks_[0].announce(sum_of(1000)));
  EXPECT_TRUE(ranks_[1].announce(sum_of(999)));   // its place holds call kAnnounced + 1
  EXPECT_FALSE(ranks_[1].announce(sum_of(999)));  // the second call was of 1
}

TEST_F(AnnouncementsOfTwo, CompareNothingOnceOneStopped) {
  ranks_[0].stop();
  ASSERT_TRUE(ranks_[0].announce(sum_of(1)));
  EXPECT_TRUE(ranks_[1].announce(sum_of(2)));
}

TEST_F(AnnouncementsOfTwo, SurviveWhatAPeerCannotMean) {
  ASSERT_TRUE(ranks_[0].announce(sum_of(7)));
  for (auto& word : teams_[0]->own_block().announced[1].call)
    word = std::numeric_limits<std::uint64_t>::max();
  const Status differs = ranks_[1].announce(sum_of(7));
  ASSERT_FALSE(differs);
  EXPECT_THAT(differs.error().what, HasSubstr("nothing that can be read"));
}

TEST_F(AnnouncementsOfTwo, NoticeADifferenceAtOnceOnOneSideAtLeast) {
  for (int round = 0; round < 200; ++round) {
    bool noticed[2] = {};
    {
      std::jthread other([&] { noticed[1] = !ranks_[1].announce(sum_of(1)); });
      noticed[0] = !ranks_[0].announce(sum_of(2));
    }
    EXPECT_TRUE(noticed[0] || noticed[1]) << "round " << round;
  }
}

}  // namespace
}  // namespace tutti::exec
