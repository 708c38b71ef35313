#include "src/ir/layout.hpp"

#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::ir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Layout of_hosts(const std::vector<std::int32_t>& host) { return Layout::of_hosts(host); }

TEST(Layout, OfHostsCountsHostsAndTheirRanksInOrderOfAppearance) {
  const Layout layout = of_hosts({7, 3, 7, 3, 3});
  EXPECT_THAT(layout.extents, ElementsAre(3, 2));
  EXPECT_THAT(layout.cells, ElementsAre(0, 3, 1, 4, 5));
  EXPECT_THAT(nodes_of(layout), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3, 4)));
  EXPECT_FALSE(layout.full());
}

TEST(Layout, IsEmptyWhereNoTwoPairsOfRanksDiffer) {
  EXPECT_TRUE(of_hosts({}).empty());
  EXPECT_TRUE(of_hosts({5, 5, 5}).empty());
  EXPECT_TRUE(of_hosts({0, 1, 2}).empty());
  EXPECT_THAT(of_hosts({0, 1, 2}).cells, IsEmpty());
}

TEST(Layout, OfAGridHasALineForEveryNode) {
  const Layout layout = Layout::grid({2, 3, 2});
  EXPECT_TRUE(layout.full());
  EXPECT_EQ(nodes_of(layout).size(), 6U);
  EXPECT_THAT(nodes_of(layout)[1], ElementsAre(2, 3));
}

TEST(Layout, IsPrintedOutermostFirstAndReadBack) {
  EXPECT_EQ(print(Layout{}), "");
  EXPECT_EQ(print(Layout::grid({4, 2})), "2x4");
  EXPECT_EQ(print(of_hosts({0, 0, 1, 1, 1})), "2,3");
  EXPECT_EQ(print(of_hosts({0, 1, 0, 1})), "2x2:0,2,1,3");
  for (const char* text : {"", "2x4", "4x4x4", "2,3", "4,3,4", "2x2:0,2,1,3", "2x3:5,0,4,1", "3"})
    EXPECT_EQ(print(*parse_layout(text)), text);
}

TEST(Layout, ThatIsPrintedIsReadBackAsItWas) {
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::int32_t> host(1 + random() % 12);
    for (auto& each : host) each = static_cast<std::int32_t>(random() % 4);
    const Layout layout = of_hosts(host);
    const auto read = parse_layout(print(layout));
    ASSERT_TRUE(read) << read.error().what;
    EXPECT_EQ(*read, layout) << print(layout);
  }
}

TEST(Layout, RefusesTextThatIsNone) {
  for (const char* text : {"0", "2x", "x2", "2x-4", "2x0", "4,0", ",", "2x2:", "2x2:0,0", "2x2:4",
                           "a", "2x4 ", "99999x99999", "16777217", "2:0,1,2", "1,99999999999"}) {
    const auto layout = parse_layout(text);
    EXPECT_FALSE(layout) << text;
  }
  EXPECT_THAT(parse_layout("2 by 4").error().what, HasSubstr("'2 by 4' is not a layout"));
}

TEST(Layout, OfOtherRanksIsRefusedByName) {
  EXPECT_TRUE(check(Layout{}, 5));
  EXPECT_TRUE(check(Layout::grid({2, 2}), 4));
  EXPECT_THAT(check(Layout::grid({2, 2}), 5).error().what, HasSubstr("places 4 ranks"));
  EXPECT_THAT(check({{2, 2}, {0, 1, 1}}, 3).error().what, HasSubstr("rank 2 in cell 1"));
  EXPECT_THAT(check({{2, 2}, {0, 1, 4}}, 3).error().what, HasSubstr("cell 4"));
  EXPECT_THAT(check({{0, 2}, {}}, 0).error().what, HasSubstr("0 by 2"));
  EXPECT_THAT(check({{}, {0}}, 1).error().what, HasSubstr("0 dimensions"));
}

}  // namespace
}  // namespace tutti::ir
