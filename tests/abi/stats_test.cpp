// tutti/stats.hpp on real communicators: what another thread sees of calls.
#include "tutti/stats.hpp"

#include <array>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace tutti {
namespace {

std::vector<Comm> two_ranks() {
  auto comms = Comm::all(2);
  EXPECT_TRUE(comms) << comms.error().what;
  return *std::move(comms);
}

OperationStats stats_of(const Comm& comm, Collective collective) {
  auto stats = operation_stats(comm, collective);
  EXPECT_TRUE(stats) << stats.error().what;
  return *stats;
}

std::optional<OperationUnderWay> under_way_of(const Comm& comm) {
  auto call = operation_under_way(comm);
  EXPECT_TRUE(call) << call.error().what;
  return *call;
}

Status all_reduce(Comm& comm) {
  const std::array<float, 12> in{};
  std::array<float, 12> out{};
  return comm.all_reduce<float>(in, out);
}

TEST(Stats, ShowTheCallThatHangsToAnotherThreadAndThatItGrowsOlder) {
  std::vector<Comm> ranks = two_ranks();
  const auto under_way = [&] { return under_way_of(ranks[0]); };
  EXPECT_FALSE(under_way());
  std::thread early([&] { EXPECT_TRUE(all_reduce(ranks[0])); });
  while (!under_way()) std::this_thread::yield();
  const auto seen = under_way();
  EXPECT_EQ(seen->collective, Collective::kAllReduce);
  EXPECT_EQ(seen->type, DataType::kFloat32);
  EXPECT_EQ(seen->count, 12U);
  EXPECT_EQ(seen->sequence, 1U);
  while (under_way()->age_s <= seen->age_s) std::this_thread::yield();
  EXPECT_FALSE(under_way_of(ranks[1])) << "which has not begun";
  EXPECT_EQ(stats_of(ranks[0], Collective::kAllReduce).calls, 0U);
  EXPECT_TRUE(all_reduce(ranks[1]));
  early.join();
  EXPECT_FALSE(under_way());
  const auto stats = stats_of(ranks[0], Collective::kAllReduce);
  EXPECT_EQ(stats.calls, 1U);
  EXPECT_GT(stats.seconds, 0.0);
}

TEST(Stats, CountBytesByTheScheduleThatWasAskedFor) {
  std::vector<Comm> ranks = two_ranks();
  for (Comm& comm : ranks) ASSERT_TRUE(comm.set_algorithm(Collective::kAllReduce, "fixed_tree"));
  const std::vector<float> in(4'096);
  std::vector<float> outs[2] = {in, in};
  std::thread other([&] { EXPECT_TRUE(ranks[1].all_reduce<float>(in, outs[1])); });
  EXPECT_TRUE(ranks[0].all_reduce<float>(in, outs[0]));
  other.join();
  for (const Comm& comm : ranks) {
    const auto stats = stats_of(comm, Collective::kAllReduce);
    EXPECT_EQ(stats.bytes_sent, in.size() * sizeof(float));
    EXPECT_EQ(stats.bytes_sent_to_other_hosts, 0U);
    EXPECT_EQ(stats_of(comm, Collective::kReduceScatter).calls, 0U);
  }
}

TEST(Stats, KnowTheNameOfTheHostOfEachRank) {
  char own[256] = {};
  ASSERT_EQ(::gethostname(own, sizeof own - 1), 0);
  const std::vector<Comm> ranks = two_ranks();
  for (const Rank rank : {0, 1}) EXPECT_EQ(*host_name(ranks[0], rank), own);
  EXPECT_EQ(host_name(ranks[0], 2).error().code, Code::kInvalidArgument);
  EXPECT_EQ(host_name(ranks[0], -1).error().code, Code::kInvalidArgument);
}

TEST(Stats, RefuseWhatIsNoCollectiveAndNoAlgorithm) {
  std::vector<Comm> ranks = two_ranks();
  const auto refused = operation_stats(ranks[0], static_cast<Collective>(kCollectives));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_FALSE(ranks[0].set_algorithm(Collective::kAllReduce, "no_such_algorithm"));
}

TEST(Stats, StayWhenTheCommunicatorIsRevoked) {
  std::vector<Comm> ranks = two_ranks();
  std::thread other([&] { EXPECT_TRUE(all_reduce(ranks[1])); });
  EXPECT_TRUE(all_reduce(ranks[0]));
  other.join();
  ranks[0].revoke();
  EXPECT_EQ(stats_of(ranks[0], Collective::kAllReduce).calls, 1U);
  EXPECT_FALSE(under_way_of(ranks[0]));
}

}  // namespace
}  // namespace tutti
