#include "src/bootstrap/in_process.hpp"

#include <atomic>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/result.hpp"
#include "src/bootstrap/rank_list.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

Blob blob_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// Runs `body(bootstrap)` on one thread a rank.
template <class Body>
void on_all(std::vector<std::unique_ptr<Bootstrap>>& group, Body body) {
  std::vector<std::thread> threads;
  for (auto& member : group) threads.emplace_back([&] { body(*member); });
  for (auto& thread : threads) thread.join();
}

TEST(InProcessGroup, AllGatherGivesEveryRankEveryBlob) {
  auto group = in_process_group(7);
  on_all(group, [](Bootstrap& me) {
    for (int round = 0; round < 50; ++round) {
      const auto all =
          me.all_gather(blob_of(fmt::format("{}.{}", me.rank(), round)), Deadline::after(10s));
      ASSERT_TRUE(all) << all.error().what;
      for (Rank r = 0; r < me.size(); ++r) {
        EXPECT_EQ((*all)[static_cast<std::size_t>(r)], blob_of(fmt::format("{}.{}", r, round)));
      }
    }
  });
}

TEST(InProcessGroup, BroadcastGivesTheRootsBlob) {
  auto group = in_process_group(3);
  on_all(group, [](Bootstrap& me) {
    const auto got = broadcast(me, blob_of(std::to_string(me.rank())), 2, Deadline::after(10s));
    ASSERT_TRUE(got) << got.error().what;
    EXPECT_EQ(*got, blob_of("2"));
    EXPECT_EQ(broadcast(me, {}, 3, Deadline::after(10s)).error().code, Code::kInvalidArgument);
  });
}

TEST(InProcessGroup, ATimeoutNamesWhoNeverCame) {
  auto group = in_process_group(4);
  std::thread other([&] { (void)group[2]->all_gather({}, Deadline::after(20ms)); });
  const auto result = group[0]->all_gather({}, Deadline::after(20ms));
  other.join();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kTimeout);
  EXPECT_THAT(result.error().what, HasSubstr("never came: 1, 3"));
}

TEST(InProcessGroup, ARankThatLeftIsNamedAtOnce) {
  auto group = in_process_group(2);
  group[1].reset();
  const auto result = group[0]->all_gather({}, Deadline::never());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kPeerFailed);
  EXPECT_EQ(result.error().peer, 1);
}

TEST(InProcessGroup, OfRanksThatLeftTheFirstToGiveUpIsNamed) {
  auto group = in_process_group(3);
  group[2]->announce(make_error(Code::kUnavailable, "no space"));
  group[1].reset();
  const auto result = group[0]->all_gather({}, Deadline::never());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kPeerFailed);
  EXPECT_EQ(result.error().peer, 2);
  EXPECT_EQ(result.error().what, "rank 2 gave up: no space");
}

TEST(InProcessGroup, AnnouncementsReachEveryOtherRankEvenLateHandlers) {
  auto group = in_process_group(3);
  std::vector<std::string> heard(3);
  group[1]->on_failure([&](const Error& error) { heard[1] = error.what; });
  group[0]->announce(make_error(Code::kAborted, "the user said so"));
  group[2]->on_failure([&](const Error& error) { heard[2] = error.what; });
  EXPECT_EQ(heard[0], "");
  EXPECT_EQ(heard[1], "rank 0 gave up: the user said so");
  EXPECT_EQ(heard[2], heard[1]);
}

TEST(InProcessGroup, ARemovedHandlerIsNotCalledAnyMore) {
  auto group = in_process_group(2);
  std::atomic<int> calls{0};
  group[1]->on_failure([&](const Error&) { ++calls; });
  group[0]->announce(make_error(Code::kAborted, "one"));
  group[1]->on_failure(nullptr);
  group[0]->announce(make_error(Code::kAborted, "two"));
  EXPECT_EQ(calls, 1);
}

TEST(InProcessGroup, SubgroupsRenumberAndWorkWithoutTheOthers) {
  auto group = in_process_group(4);
  group[0].reset();  // "dead"
  const std::vector<Rank> members = {3, 1};
  std::vector<std::thread> threads;
  for (const Rank r : members) {
    threads.emplace_back([&, r] {
      auto sub = group[static_cast<std::size_t>(r)]->subgroup(members, 5, Deadline::after(10s));
      ASSERT_TRUE(sub) << sub.error().what;
      EXPECT_EQ((*sub)->rank(), r == 3 ? 0 : 1);
      const auto all = (*sub)->all_gather(blob_of(std::to_string(r)), Deadline::after(10s));
      ASSERT_TRUE(all) << all.error().what;
      EXPECT_EQ((*all)[0], blob_of("3"));
      EXPECT_EQ((*all)[1], blob_of("1"));
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(InProcessGroup, ASubgroupRefusesBadMembers) {
  auto group = in_process_group(3);
  const std::vector<Rank> outside = {0, 3};
  const std::vector<Rank> twice = {0, 0};
  const std::vector<Rank> others = {1, 2};
  for (const auto& members : {outside, twice, others, std::vector<Rank>{}}) {
    const auto result = group[0]->subgroup(members, 1, Deadline::after(1s));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::kInvalidArgument);
  }
}

TEST(RankList, WritesRanges) {
  EXPECT_EQ(describe_ranks(std::vector<Rank>{}), "none");
  EXPECT_EQ(describe_ranks(std::vector<Rank>{4}), "4");
  EXPECT_EQ(describe_ranks(std::vector<Rank>{0, 1, 2, 7, 9, 10}), "0-2, 7, 9-10");
  EXPECT_EQ(describe_ranks(std::vector<Rank>{0, 2, 4, 6}, 2), "0, 2 and 2 more");
}

}  // namespace
}  // namespace tutti
