// Sends and receives, alone and in groups.
#include <gtest/gtest.h>

#include "tests/collectives/ranks.hpp"

namespace tutti {
namespace {

using testing::call_of;
using testing::make_test_runtimes;
using testing::Placement;

class Messages : public ::testing::TestWithParam<Placement> {
 protected:
  static void run_ranks(int n, const std::function<void(Communicator&)>& body) {
    testing::run_ranks(make_test_runtimes(GetParam(), n), body);
  }
};

TEST_P(Messages, OfAGroupPairInOrder) {
  constexpr std::size_t kLong = 2'000'000;  // more than sockets hold
  run_ranks(3, [](Communicator& communicator) {
    const Rank rank = communicator.rank();
    const Rank next = (rank + 1) % 3, previous = (rank + 2) % 3;
    std::vector<std::int32_t> first(kLong, rank), second(7, rank + 100);
    std::vector<std::int32_t> got_first(kLong), got_second(7), self_in(3, 9), self_out(3);
    Call call;
    call.type = DataType::kInt32;
    const auto make = [&](Collective collective, std::vector<std::int32_t>& data, Rank peer) {
      call.collective = collective;
      call.send = call.recv = data.data();
      call.count = data.size();
      call.root = peer;
      return call;
    };
    const Call calls[] = {
        make(Collective::kSend, first, next),         make(Collective::kSend, second, next),
        make(Collective::kRecv, got_first, previous), make(Collective::kRecv, got_second, previous),
        make(Collective::kSend, self_in, rank),       make(Collective::kRecv, self_out, rank)};
    ASSERT_TRUE(communicator.start(calls));
    GroupMember* const self = &communicator;
    const Status status = run_group({&self, 1});
    ASSERT_TRUE(status) << status.error().what;
    EXPECT_EQ(got_first, std::vector<std::int32_t>(kLong, previous));
    EXPECT_EQ(got_second, std::vector<std::int32_t>(7, previous + 100));
    EXPECT_EQ(self_out, self_in);
  });
}

// Time that grew with the square of their number would be minutes here.
TEST_P(Messages, MayBeThousandsInAGroup) {
  constexpr std::size_t kMessages = kSanitized ? 1000 : 10000;
  run_ranks(2, [](Communicator& communicator) {
    const Rank peer = 1 - communicator.rank();
    std::vector<std::vector<std::int32_t>> out(kMessages), in(kMessages);
    std::vector<Call> calls;
    for (std::size_t i = 0; i < kMessages; ++i) {
      out[i].assign(i % 3, static_cast<std::int32_t>(i) * (1 + communicator.rank()));
      in[i].assign(i % 3, -1);
      calls.push_back(call_of(Collective::kSend, out[i], peer));
    }
    for (auto& data : in) calls.push_back(call_of(Collective::kRecv, data, peer));
    ASSERT_TRUE(communicator.start(calls));
    GroupMember* const self = &communicator;
    const Status status = run_group({&self, 1});
    ASSERT_TRUE(status) << status.error().what;
    for (std::size_t i = 0; i < kMessages; ++i)
      ASSERT_EQ(in[i], std::vector<std::int32_t>(i % 3, static_cast<std::int32_t>(i) * (1 + peer)));
  });
}

TEST_P(Messages, ToOneselfThatDoNotPairAreRefusedAndNothingElseEnds) {
  run_ranks(2, [](Communicator& communicator) {
    const Rank rank = communicator.rank();
    std::vector<std::int32_t> one(3, rank), other(3), longer(4);
    const auto refusal = [&](std::vector<Call> calls) {
      const Status status = communicator.start(calls);
      EXPECT_FALSE(status);
      if (status) return std::string();
      EXPECT_EQ(status.error().code, Code::kInvalidUsage);
      return status.error().what;
    };
    const Call send = call_of(Collective::kSend, one, rank);
    const Call recv = call_of(Collective::kRecv, other, rank);
    EXPECT_NE(refusal({send}).find("1 sends to itself and 0 receives"), std::string::npos);
    EXPECT_NE(refusal({recv, send, recv}).find("1 sends to itself and 2 receives"),
              std::string::npos);
    const std::string both = refusal({send, call_of(Collective::kRecv, longer, rank)});
    EXPECT_NE(both.find("count=3"), std::string::npos) << both;
    EXPECT_NE(both.find("count=4"), std::string::npos) << both;
    const Status alone = communicator.run(send);
    ASSERT_FALSE(alone);
    EXPECT_EQ(alone.error().code, Code::kInvalidUsage);

    ASSERT_TRUE(communicator.health());
    const Call good[] = {recv, send};
    ASSERT_TRUE(communicator.start(good));
    GroupMember* const self = &communicator;
    ASSERT_TRUE(run_group({&self, 1}));
    EXPECT_EQ(other, one);
    float value = 1;
    Call sum;
    sum.send = sum.recv = &value;
    sum.count = 1;
    ASSERT_TRUE(communicator.run(sum));
    EXPECT_EQ(value, 2.0f);
  });
}

INSTANTIATE_TEST_SUITE_P(Between, Messages,
                         ::testing::Values(Placement::kThreads, Placement::kProcesses,
                                           Placement::kHosts, Placement::kMixed),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace tutti
