// Calls that do not fit each other, ranks that give up and ranks that leave: what the others are
// told.
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "tests/collectives/ranks.hpp"

namespace tutti {
namespace {

using testing::all_ranks;
using testing::call_of;
using testing::make_test_runtime;
using testing::make_test_runtimes;
using testing::Placement;
using testing::run_ranks;

class Failures : public ::testing::TestWithParam<Placement> {
 protected:
  static void run_ranks(int n, const std::function<void(Communicator&)>& body) {
    testing::run_ranks(make_test_runtimes(GetParam(), n, {{"TIMEOUT", "10"}}), body);
  }
};

TEST_P(Failures, OfCallsThatDoNotFitShowBothSides) {
  run_ranks(2, [](Communicator& communicator) {
    std::vector<float> data(64);
    Call call = call_of(Collective::kAllReduce, data);
    call.count = communicator.rank() == 0 ? 32 : 64;
    const Status status = communicator.run(call);
    ASSERT_FALSE(status);
    for (const char* side : {"count=32", "count=64"})
      EXPECT_NE(status.error().what.find(side), std::string::npos) << status.error().what;
  });
}

TEST_P(Failures, ByAbortEndTheOthersWithTheReasonAsTheDoingOfAPeer) {
  run_ranks(3, [](Communicator& communicator) {
    const bool aborts = communicator.rank() == 2;
    if (aborts) communicator.abort({Code::kAborted, "enough of this"});
    float value = 0;
    Call call;
    call.send = call.recv = &value;
    call.count = 1;
    const Status status = communicator.run(call);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, aborts ? Code::kAborted : Code::kPeerFailed);
    EXPECT_NE(status.error().what.find("enough of this"), std::string::npos) << status.error().what;
    EXPECT_EQ(status.error().peer, aborts ? kNoRank : 2);
    EXPECT_EQ(status.error().what.find("rank 2 gave up") == std::string::npos, aborts)
        << status.error().what;
    EXPECT_FALSE(communicator.run(call));
  });
}

TEST_P(Failures, OfRanksThatWaitForEachOtherInDifferentCallsShowTheCalls) {
  testing::run_ranks(make_test_runtimes(GetParam(), 3), [](Communicator& communicator) {
    std::vector<float> data(30'000);
    const bool receives = communicator.rank() == 2;
    const Call call = call_of(receives ? Collective::kRecv : Collective::kAllReduce, data);
    const Status status = communicator.run(call);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kInvalidUsage);
    for (const char* part : {"wait for each other", "all_reduce(count=30000", "recv(count=30000",
                             "rank 2 waits in", "rank 0 waits in"})
      EXPECT_NE(status.error().what.find(part), std::string::npos) << status.error().what;
  });
}

// Long after the others have said what they wait in.
TEST_P(Failures, AreNotMadeOfRanksThatAreLate) {
  testing::run_ranks(make_test_runtimes(GetParam(), 3), [](Communicator& communicator) {
    std::vector<float> data(30'000), got(30'000);
    const auto group = [&](Rank from, Rank to) {
      std::vector<Call> calls;
      if (communicator.rank() == from) calls.push_back(call_of(Collective::kSend, data, to));
      if (communicator.rank() == to) calls.push_back(call_of(Collective::kRecv, got, from));
      if (calls.empty()) return;
      ASSERT_TRUE(communicator.start(calls));
      GroupMember* const member = &communicator;
      const Status run = run_group({&member, 1});
      EXPECT_TRUE(run) << run.error().what;
    };
    if (communicator.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(3500));
    group(2, 1);  // 0 is in the collective already, and 1 waits for 2
    const Status status = communicator.run(call_of(Collective::kAllReduce, data));
    EXPECT_TRUE(status) << status.error().what;
    group(0, 2);
  });
}

INSTANTIATE_TEST_SUITE_P(Between, Failures,
                         ::testing::Values(Placement::kThreads, Placement::kProcesses,
                                           Placement::kHosts, Placement::kMixed),
                         [](const auto& info) { return name_of(info.param); });

bool says_once(const std::string& message, const std::string& part) {
  const std::size_t at = message.find(part);
  return at != std::string::npos && at == message.rfind(part);
}

TEST(Collectives, MismatchedCallsThatKnowTheirPlacesShowThemAndAllArguments) {
  run_ranks(make_test_runtime(), 2, [](Communicator& communicator) {
    static float data[2][64];  // of both, for both to know the addresses
    Call calls[2];
    for (const Rank rank : {0, 1}) {
      calls[rank].send = calls[rank].recv = data[rank];
      calls[rank].count = rank == 0 ? 32 : 64;
      calls[rank].site = {rank == 0 ? "ncclHere" : "ncclThere", __builtin_return_address(0)};
    }
    const Status status = communicator.run(calls[communicator.rank()]);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kInvalidUsage);
    for (const Call& call : calls)
      EXPECT_TRUE(says_once(status.error().what, "calls " + describe(call))) << status.error().what;
  });
}

TEST(Collectives, AReceiveThatDoesNotFitTheSendShowsThePlacesAndArgumentsOfBoth) {
  run_ranks(make_test_runtime(), 2, [](Communicator& communicator) {
    static float sent[200'000], received[64];  // more than is sent before it is received
    Call send, recv;
    send.collective = Collective::kSend;
    send.send = sent;
    send.count = 200'000;
    send.root = 1;
    send.site = {"ncclSend", __builtin_return_address(0)};
    recv.collective = Collective::kRecv;
    recv.recv = received;
    recv.count = 64;
    recv.root = 0;
    recv.site = {"ncclRecv", __builtin_return_address(0)};
    const Status status = communicator.run(communicator.rank() == 0 ? send : recv);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kInvalidUsage);
    for (const Call& call : {send, recv})
      EXPECT_TRUE(says_once(status.error().what, describe(call))) << status.error().what;
  });
}

TEST(Collectives, ARootThatWaitsForNobodyLearnsOfAMismatchInItsNextCall) {
  auto ranks = all_ranks(2);
  std::vector<float> root(4), reader(8);
  EXPECT_TRUE(ranks[0]->run(call_of(Collective::kBroadcast, root)));
  for (const Status& status : {ranks[1]->run(call_of(Collective::kBroadcast, reader)),
                               ranks[0]->run(call_of(Collective::kBroadcast, root))}) {
    ASSERT_FALSE(status);
    EXPECT_NE(status.error().what.find("count=4"), std::string::npos) << status.error().what;
    EXPECT_NE(status.error().what.find("count=8"), std::string::npos) << status.error().what;
  }
}

TEST(Collectives, AGroupThatFailsEndsAllItsCommunicators) {
  auto pair = all_ranks(2), others = all_ranks(2);
  std::vector<float> data(2);
  Call call;
  call.send = call.recv = data.data();
  call.count = 1;
  ASSERT_TRUE(pair[0]->start({&call, 1}));
  ASSERT_TRUE(others[0]->start({&call, 1}));  // their rank 1 never calls
  pair[1]->abort({Code::kAborted, "enough of this"});
  GroupMember* const group[] = {others[0].get(), pair[0].get()};
  const Status status = run_group(group);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().what.find("enough of this"), std::string::npos) << status.error().what;
  // Nothing of the call is left that could touch its buffers, and every later call says why.
  for (int again = 0; again < 2; ++again) {
    const auto left = others[0]->poll();
    ASSERT_FALSE(left);
    EXPECT_NE(left.error().what.find("another communicator"), std::string::npos);
  }
  EXPECT_FALSE(others[0]->health());
}

/// All ranks as one thread's; a wait for a rank that will never come ends with an error of time.
std::vector<std::unique_ptr<Communicator>> impatient_ranks(int n) {
  return all_ranks(n, {{"TIMEOUT", "10"}});
}

void expect_blames_leaver(const Status& status, Rank leaver) {
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kPeerFailed) << status.error().what;
  EXPECT_EQ(status.error().peer, leaver) << status.error().what;
  EXPECT_NE(status.error().what.find("has left"), std::string::npos) << status.error().what;
}

TEST(Leaving, FailsTheCollectivesOfWhoStays) {
  for (const std::size_t count : {1u, 300000u}) {
    auto ranks = impatient_ranks(2);
    ranks[1].reset();
    std::vector<float> data(count);
    expect_blames_leaver(ranks[0]->run(call_of(Collective::kAllReduce, data)), 1);
  }
}

TEST(Leaving, FailsReceivesAlsoBesideOthersThatMayStillCome) {
  auto ranks = impatient_ranks(3);
  ranks[1].reset();
  std::vector<float> data(10), more(10);
  const Call calls[] = {call_of(Collective::kRecv, data, 1), call_of(Collective::kRecv, more, 2)};
  ASSERT_TRUE(ranks[0]->start(calls));
  GroupMember* const self = ranks[0].get();
  expect_blames_leaver(run_group({&self, 1}), 1);
}

TEST(Leaving, FailsSendsThatNoSlotTakes) {
  auto ranks = impatient_ranks(2);
  ranks[1].reset();
  std::vector<float> data(1 << 20);
  expect_blames_leaver(ranks[0]->run(call_of(Collective::kSend, data, 1)), 1);
}

TEST(Leaving, TakesNothingBackOfWhatWasDoneBefore) {
  auto ranks = impatient_ranks(2);
  std::vector<float> sent(1000, 3), got(1000), root(7, 5), copy(7);
  ASSERT_TRUE(ranks[1]->run(call_of(Collective::kSend, sent, 0)));
  ASSERT_TRUE(ranks[1]->run(call_of(Collective::kBroadcast, root, 1)));
  ranks[1].reset();
  const Status received = ranks[0]->run(call_of(Collective::kRecv, got, 1));
  ASSERT_TRUE(received) << received.error().what;
  const Status broadcast = ranks[0]->run(call_of(Collective::kBroadcast, copy, 1));
  ASSERT_TRUE(broadcast) << broadcast.error().what;
  EXPECT_EQ(got, sent);
  EXPECT_EQ(copy, root);
}

}  // namespace
}  // namespace tutti
