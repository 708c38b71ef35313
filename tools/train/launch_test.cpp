#include "tools/train/launch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::trainer {
namespace {

using testing::ElementsAre;

TEST(WithoutOptions, TakesThemWithTheirValuesInEitherForm) {
  EXPECT_THAT(without_options({"p", "--ranks", "2", "--data", "x", "--restarts=3", "--lr=1"},
                              {"--ranks", "--restarts"}),
              ElementsAre("p", "--data", "x", "--lr=1"));
}

TEST(WithoutOptions, LeavesOptionsThatOnlyBeginLikeThem) {
  EXPECT_THAT(without_options({"p", "--ranks-per-node", "2"}, {"--ranks"}),
              ElementsAre("p", "--ranks-per-node", "2"));
}

}  // namespace
}  // namespace tutti::trainer
