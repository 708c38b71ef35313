#include "tools/train/same_options.hpp"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::trainer {
namespace {

using testing::HasSubstr;

/// What three ranks answer where the last one has other options.
std::vector<Status> answers(const Options& others, const Options& last) {
  auto comms = Comm::all(3);
  EXPECT_TRUE(comms);
  std::vector<Status> outcomes(3, ok_status());
  std::vector<std::jthread> ranks;
  for (std::size_t rank = 0; rank < 3; ++rank)
    ranks.emplace_back([&, rank] {
      outcomes[rank] =
          agree_on_options((*comms)[rank], shared_options(rank == 2 ? last : others, 7));
    });
  ranks.clear();
  return outcomes;
}

TEST(SameOptions, PassWhereAllRanksHaveThem) {
  for (const Status& status : answers({.prompt = "a\nb"}, {.prompt = "a\nb"}))
    EXPECT_TRUE(status) << status.error().what;
}

TEST(SameOptions, NameTheRankThatDiffersAndTheOption) {
  for (const Status& status : answers({.batch = 32}, {.batch = 16})) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kPeerFailed);
    EXPECT_EQ(status.error().peer, 2);
    EXPECT_THAT(status.error().what, HasSubstr("rank 0 has --batch 32, and rank 2 has --batch 16"));
  }
  EXPECT_THAT(answers({}, {.min_lr = 0.5})[0].error().what,
              HasSubstr("rank 0 has no --min-lr, and rank 2 has --min-lr 0.5"));
}

TEST(SameOptions, TellDataApart) {
  EXPECT_NE(shared_options({}, 1), shared_options({}, 2));
  EXPECT_EQ(shared_options({.data = "a", .out = "b", .threads = 2}, 1), shared_options({}, 1));
}

}  // namespace
}  // namespace tutti::trainer
