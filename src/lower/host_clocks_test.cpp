#include "src/lower/host_clocks.hpp"

#include <gtest/gtest.h>

namespace tutti::lower {
namespace {

TEST(HostClocks, LearnWhatAPeerKnewWhenItCameThatFar) {
  HostClocks clocks({{0, 0, 1, 0}});
  EXPECT_EQ(clocks.neighbours(1), (std::vector<Rank>{0, 1, 3}));
  EXPECT_EQ(clocks.neighbours(2), (std::vector<Rank>{2}));
  clocks.tick(0);
  clocks.publish(0, 1);
  clocks.tick(0);
  clocks.publish(0, 3);
  EXPECT_TRUE(clocks.join(1, 0, 1));
  EXPECT_EQ(clocks.known(1, 0), 1U);
  EXPECT_TRUE(clocks.join(1, 0, 2)) << "what it published next holds as well";
  EXPECT_EQ(clocks.known(1, 0), 2U);
  EXPECT_FALSE(clocks.join(1, 0, 4));
  EXPECT_TRUE(clocks.join(1, 3, 0)) << "nothing to wait for";
}

TEST(HostClocks, PassKnowledgeOn) {
  HostClocks clocks({{0, 0, 0}});
  clocks.tick(0);
  clocks.publish(0, 1);
  ASSERT_TRUE(clocks.join(1, 0, 1));
  clocks.tick(1);
  clocks.publish(1, 1);
  ASSERT_TRUE(clocks.join(2, 1, 1));
  EXPECT_EQ(clocks.known(2, 0), 1U) << "by way of rank 1";
  EXPECT_EQ(clocks.known(2, 1), 1U);
  EXPECT_EQ(clocks.known(0, 2), 0U);
}

}  // namespace
}  // namespace tutti::lower
