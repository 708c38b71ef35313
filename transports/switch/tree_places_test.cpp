#include "transports/switch/tree_places.hpp"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::in_network {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TreePlaces, AreOneSwitchWhereAllReachTheSame) {
  const auto places = places_in_tree(std::vector<SwitchId>{9, 9, 9});
  ASSERT_TRUE(places) << places.error().what;
  EXPECT_THAT(*places, ElementsAre(TreePlace{.workers = 3, .worker = 0},
                                   TreePlace{.workers = 3, .worker = 1},
                                   TreePlace{.workers = 3, .worker = 2}));
}

TEST(TreePlaces, NumberLeavesByTheirFirstMembers) {
  const auto places = places_in_tree(std::vector<SwitchId>{9, 3, 9, 5, 3, 9});
  ASSERT_TRUE(places) << places.error().what;
  EXPECT_THAT(*places, ElementsAre(TreePlace{.leaves = 3, .leaf = 0, .workers = 3, .worker = 0},
                                   TreePlace{.leaves = 3, .leaf = 1, .workers = 2, .worker = 0},
                                   TreePlace{.leaves = 3, .leaf = 0, .workers = 3, .worker = 1},
                                   TreePlace{.leaves = 3, .leaf = 2, .workers = 1, .worker = 0},
                                   TreePlace{.leaves = 3, .leaf = 1, .workers = 2, .worker = 1},
                                   TreePlace{.leaves = 3, .leaf = 0, .workers = 3, .worker = 2}));
}

TEST(TreePlaces, EndAt32OfEachKind) {
  std::vector<SwitchId> switches;
  for (SwitchId each = 1; each <= 32; ++each) switches.insert(switches.end(), 32, each);
  const auto most = places_in_tree(switches);
  ASSERT_TRUE(most) << most.error().what;
  EXPECT_EQ(most->back(), (TreePlace{.leaves = 32, .leaf = 31, .workers = 32, .worker = 31}));

  switches.push_back(7);
  const auto crowded = places_in_tree(switches);
  ASSERT_FALSE(crowded);
  EXPECT_EQ(crowded.error().code, Code::kUnsupported);
  EXPECT_THAT(crowded.error().what, HasSubstr("33 hosts are at one switch"));

  switches.back() = 99;
  const auto wide = places_in_tree(switches);
  ASSERT_FALSE(wide);
  EXPECT_EQ(wide.error().code, Code::kUnsupported);
  EXPECT_THAT(wide.error().what, HasSubstr("the hosts are at 33 switches"));
}

TEST(TreePlaces, ComeFromWhatRanksTell) {
  // Two groups; rank 1 is in the second alone.
  const std::vector<Blob> told = {encode(std::vector<SwitchId>{7, 8}),
                                  encode(std::vector<SwitchId>{0, 9}),
                                  encode(std::vector<SwitchId>{5, 0})};
  EXPECT_THAT(*switches_of(told, 2, 0, std::vector<Rank>{2, 0}), ElementsAre(5, 7));
  EXPECT_THAT(*switches_of(told, 2, 1, std::vector<Rank>{0, 1}), ElementsAre(8, 9));
  const auto missing = switches_of(told, 2, 1, std::vector<Rank>{0, 2});
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().what, HasSubstr("rank 2 does not reach its switch"));
}

TEST(TreePlaces, AreNotTakenFromWhatIsMalformed) {
  for (const std::size_t bytes : {0, 1, 8, 15, 17, 24}) {
    const std::vector<Blob> told = {encode(std::vector<SwitchId>{7, 8}), Blob(bytes, std::byte{1})};
    const auto switches = switches_of(told, 2, 1, std::vector<Rank>{0, 1});
    ASSERT_FALSE(switches) << bytes;
    EXPECT_THAT(switches.error().what, HasSubstr("rank 1 tells"));
  }
}

}  // namespace
}  // namespace tutti::in_network
