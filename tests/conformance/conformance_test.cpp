// The rules of src/transport/transport.hpp, run over every transport.
#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/wire/frames.hpp"
#include "tests/conformance/connected_pair.hpp"

namespace tutti::testing {
namespace {

using ::testing::HasSubstr;
using State = Transfer::State;
using Bytes = std::vector<std::byte>;

StreamId lane_of(Lane lane, std::uint64_t communicator = 1) { return {communicator, 0, 1, lane}; }
StreamId back_lane_of(Lane lane) { return {1, 1, 0, lane}; }

MessageTag tag_of(std::uint64_t sequence, std::size_t bytes) {
  return {sequence, {Collective::kAllReduce, DataType::kInt8, ReduceOp::kSum, 0, bytes}};
}

Bytes pattern(std::size_t bytes, std::uint64_t seed) {
  Bytes data(bytes);
  std::uint64_t value = seed * 0x9e3779b97f4a7c15 + 1;
  for (std::byte& byte : data) {
    value = value * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<std::byte>(value >> 56);
  }
  return data;
}

bool pending(const Transfer& transfer) {
  return transfer.state.load(std::memory_order_acquire) == State::kPending;
}

class Conformance : public ::testing::TestWithParam<const Medium*> {
 protected:
  void SetUp() override {
    if (const auto missing = GetParam()->missing; missing != nullptr && !missing().empty())
      GTEST_SKIP() << missing();
    pair_ = GetParam()->connect();
  }

  // Drives both ends until `done`; a test that would hang fails instead.
  template <class Done>
  [[nodiscard]] bool drive_until(Done done) {
    const Deadline deadline = Deadline::after(std::chrono::seconds(20));
    while (!done()) {
      if (deadline.passed()) return false;
      if (pair_.a) pair_.a->progress();
      if (pair_.b) pair_.b->progress();
    }
    return true;
  }
  [[nodiscard]] bool drive(const Transfer& transfer) {
    return drive_until([&] { return !pending(transfer); });
  }
  // Gives everything that can move the chance to.
  void settle() {
    for (int quiet = 0; quiet < 200; ++quiet) {
      const bool a_moved = pair_.a->progress();
      const bool b_moved = pair_.b->progress();
      if (a_moved || b_moved) quiet = 0;
    }
  }
  void send(Lane lane, std::uint64_t sequence, const Bytes& data, Transfer& transfer) {
    pair_.a->send(lane_of(lane), tag_of(sequence, data.size()), data, transfer);
  }
  void recv(Lane lane, std::uint64_t sequence, Bytes& data, Transfer& transfer) {
    pair_.b->recv(lane_of(lane), tag_of(sequence, data.size()), data, transfer);
  }
  void expect_passes(std::size_t bytes, Lane lane, std::uint64_t sequence, bool receiver_first) {
    const Bytes data = pattern(bytes, sequence);
    Bytes got(bytes);
    Transfer out;
    Transfer in;
    if (receiver_first) recv(lane, sequence, got, in);
    send(lane, sequence, data, out);
    if (!receiver_first) {
      settle();
      recv(lane, sequence, got, in);
    }
    ASSERT_TRUE(drive(out) && drive(in)) << bytes;
    ASSERT_EQ(out.state, State::kDone) << out.error.what;
    ASSERT_EQ(in.state, State::kDone) << in.error.what;
    ASSERT_TRUE(got == data) << bytes << " bytes differ";
  }

  ConnectedPair pair_;
};

TEST_P(Conformance, MovesMessagesOfEverySize) {
  std::uint64_t sequence = 0;
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{2047}, std::size_t{2048}, std::size_t{2049},
        kEagerLimit - 1, kEagerLimit, kEagerLimit + 1, kChunkBytes, kChunkBytes + 1,
        std::size_t{300001}, std::size_t{1} << 20})
    for (const bool receiver_first : {true, false})
      expect_passes(bytes, 3, ++sequence, receiver_first);
}

TEST_P(Conformance, MovesTheLargestMessage) { expect_passes(GetParam()->largest + 3, 0, 1, true); }

TEST_P(Conformance, CompletesTheTransfersOfAStreamInTheOrderPosted) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  constexpr int kMessages = 150;
  std::deque<Transfer> outs(kMessages);
  std::deque<Transfer> ins(kMessages);
  std::vector<Bytes> data;
  std::vector<Bytes> got;
  for (int i = 0; i < kMessages; ++i) {
    const std::size_t bytes = random() % 4 == 0 ? random() % 100000 : random() % 3000;
    data.push_back(pattern(bytes, i));
    got.emplace_back(bytes);
  }
  int sent = 0;
  int posted = 0;
  const auto in_order = [](const std::deque<Transfer>& transfers, int count) {
    const auto end = transfers.begin() + count;
    const auto first_pending = std::find_if(transfers.begin(), end, pending);
    return std::all_of(first_pending, end, pending);
  };
  ASSERT_TRUE(drive_until([&] {
    if (sent < kMessages && random() % 2 == 0) send(0, sent, data[sent], outs[sent]), ++sent;
    if (posted < kMessages && random() % 2 == 0)
      recv(0, posted, got[posted], ins[posted]), ++posted;
    EXPECT_TRUE(in_order(outs, sent) && in_order(ins, posted));
    return posted == kMessages && !pending(ins.back()) && !pending(outs.back());
  }));
  for (int i = 0; i < kMessages; ++i) {
    EXPECT_EQ(ins[i].state, State::kDone) << ins[i].error.what;
    EXPECT_TRUE(data[i] == got[i]) << "message " << i;
  }
}

// More than either side remembers: what it forgets is idle, and comes back.
TEST_P(Conformance, LanesThatWereForgottenComeBack) {
  constexpr Lane kLanes = 1100;
  for (std::uint64_t round = 1; round <= 2; ++round)
    for (Lane lane = 0; lane < kLanes; ++lane) {
      expect_passes(8, lane, 2 * round, true);
      expect_passes(8, 0, 2 * round * kLanes + lane, false);  // one that is never idle for long
      if (HasFatalFailure()) return;
    }
}

TEST_P(Conformance, KeepsManyLanesApartInBothDirections) {
  constexpr Lane kLanes = 64;
  std::deque<Transfer> transfers(4 * kLanes);
  std::vector<Bytes> there(kLanes, Bytes(20000));
  std::vector<Bytes> back(kLanes, Bytes(500));
  std::vector<Bytes> data;
  for (Lane lane = 0; lane < kLanes; ++lane) data.push_back(pattern(20000, lane));
  for (Lane lane = 0; lane < kLanes; ++lane) {
    send(lane, 1, data[lane], transfers[4 * lane]);
    const auto reply = std::span(data[lane]).first(500);
    pair_.b->send(back_lane_of(lane), tag_of(1, 500), reply, transfers[4 * lane + 1]);
  }
  for (Lane lane = kLanes; lane-- > 0;) {
    recv(lane, 1, there[lane], transfers[4 * lane + 2]);
    pair_.a->recv(back_lane_of(lane), tag_of(1, 500), back[lane], transfers[4 * lane + 3]);
  }
  ASSERT_TRUE(drive_until([&] { return std::ranges::none_of(transfers, pending); }));
  for (Lane lane = 0; lane < kLanes; ++lane) {
    EXPECT_TRUE(there[lane] == data[lane]);
    EXPECT_TRUE(std::equal(back[lane].begin(), back[lane].end(), data[lane].begin()));
  }
}

TEST_P(Conformance, AnUnpostedReceiverHoldsBackItsStreamAndNoOther) {
  constexpr int kStuck = 500;
  const Bytes small = pattern(kEagerLimit, 1);
  const Bytes large = pattern(1 << 20, 2);
  std::deque<Transfer> stuck(kStuck + 1);
  for (int i = 0; i < kStuck; ++i) send(1, i, small, stuck[i]);
  send(2, 0, large, stuck[kStuck]);
  settle();
  EXPECT_LE(std::ranges::count_if(stuck, [](const auto& t) { return !pending(t); }),
            static_cast<std::ptrdiff_t>(kStreamWindow));
  for (int i = 0; i < 40; ++i) expect_passes(i % 2 == 0 ? 100 : 100000, 3, i, i % 4 < 2);

  Bytes got(small.size());
  for (int i = 0; i < kStuck; ++i) {
    Transfer in;
    recv(1, i, got, in);
    ASSERT_TRUE(drive(in));
    ASSERT_EQ(in.state, State::kDone) << in.error.what;
    ASSERT_TRUE(got == small);
  }
  Bytes got_large(large.size());
  Transfer in;
  recv(2, 0, got_large, in);
  ASSERT_TRUE(drive(in) && drive(stuck[kStuck]));
  EXPECT_TRUE(got_large == large);
}

TEST_P(Conformance, ManyUnpostedStreamsTogetherStillHoldBackNoOther) {
  constexpr Lane kLanes = 40;
  constexpr int kEach = 20;  // 40 * 20 messages exceed the credits of the connection
  const Bytes data = pattern(1000, 1);
  std::deque<Transfer> stuck(kLanes * kEach);
  for (Lane lane = 0; lane < kLanes; ++lane)
    for (int i = 0; i < kEach; ++i) send(lane, i, data, stuck[lane * kEach + i]);
  settle();
  expect_passes(100, 1000, 1, false);
  expect_passes(100000, 1000, 2, true);
  Bytes got(1000);
  for (Lane lane = 0; lane < kLanes; ++lane)
    for (int i = 0; i < kEach; ++i) {
      Transfer in;
      recv(lane, i, got, in);
      ASSERT_TRUE(drive(in));
      ASSERT_TRUE(in.state == State::kDone && got == data) << in.error.what;
    }
  ASSERT_TRUE(drive_until([&] { return std::ranges::none_of(stuck, pending); }));
}

TEST_P(Conformance, ManyShortLivedCommunicatorsPass) {
  const Bytes data = pattern(10, 1);
  for (std::uint64_t communicator = 0; communicator < 5000; ++communicator) {
    Bytes got(10);
    Transfer out;
    Transfer in;
    pair_.a->send(lane_of(0, communicator), tag_of(0, 10), data, out);
    pair_.b->recv(lane_of(0, communicator), tag_of(0, 10), got, in);
    ASSERT_TRUE(drive(in) && drive(out));
    ASSERT_TRUE(in.state == State::kDone && got == data) << in.error.what;
  }
}

TEST_P(Conformance, ACancelledReceiveIsLeftAloneAndItsSenderFails) {
  const Bytes data = pattern(8 << 20, 1);
  for (const int rounds_before_cancel : {0, 1, 3, 10, 40}) {
    const auto lane = static_cast<Lane>(rounds_before_cancel);
    Transfer out;
    Transfer in;
    auto got = std::make_unique<Bytes>(data.size());
    recv(lane, 1, *got, in);
    send(lane, 1, data, out);
    for (int i = 0; i < rounds_before_cancel; ++i) pair_.a->progress(), pair_.b->progress();
    pair_.b->cancel(lane_of(lane), in);
    ASSERT_FALSE(pending(in));
    const bool was_done = in.state == State::kDone;
    got.reset();  // the address sanitizer sees any later write
    ASSERT_TRUE(drive(out));
    if (!was_done) {
      EXPECT_EQ(in.error.code, Code::kAborted);
      EXPECT_EQ(out.state, State::kFailed);
      EXPECT_THAT(out.error.what, HasSubstr("rank 1 cancelled its receive of all_reduce(count="));
    }
    expect_passes(100000, 100, rounds_before_cancel, true);  // other streams go on
  }
}

TEST_P(Conformance, ACancelledSendFailsTheReceiverAndItsBufferIsLeftAlone) {
  for (const std::size_t bytes : {std::size_t{10000}, std::size_t{8} << 20})
    for (const int rounds_before_cancel : {0, 1, 3, 10, 40}) {
      const auto lane = static_cast<Lane>(bytes % 97 * 100 + rounds_before_cancel);
      auto data = std::make_unique<Bytes>(pattern(bytes, 1));
      Bytes got(bytes);
      Transfer out;
      Transfer in;
      send(lane, 1, *data, out);
      if (rounds_before_cancel % 2 == 1) recv(lane, 1, got, in);
      for (int i = 0; i < rounds_before_cancel; ++i) pair_.a->progress(), pair_.b->progress();
      pair_.a->cancel(lane_of(lane), out);
      ASSERT_FALSE(pending(out));
      const bool was_done = out.state == State::kDone;
      data.reset();
      if (rounds_before_cancel % 2 == 0) recv(lane, 1, got, in);
      ASSERT_TRUE(drive(in));
      EXPECT_TRUE(!was_done || in.state == State::kDone) << in.error.what;
      if (in.state == State::kFailed) {
        EXPECT_THAT(in.error.what, HasSubstr("rank 0 cancelled its send of all_reduce(count="));
      }
      expect_passes(100000, 9999, rounds_before_cancel, true);
    }
}

TEST_P(Conformance, MessagesSentBeforeACancelledOneAreDelivered) {
  if (GetParam()->short_ones_wait) GTEST_SKIP() << "nothing is sent before its receiver comes";
  const Bytes data = pattern(100, 1);
  const Bytes large = pattern(1 << 20, 2);
  Transfer first;
  Transfer second;
  send(0, 1, data, first);
  send(0, 2, large, second);
  settle();
  pair_.a->cancel(lane_of(0), second);
  settle();
  Bytes got(100);
  Bytes got_large(large.size());
  Transfer in_first;
  Transfer in_second;
  recv(0, 1, got, in_first);
  recv(0, 2, got_large, in_second);
  ASSERT_TRUE(drive(in_first) && drive(in_second));
  EXPECT_TRUE(in_first.state == State::kDone && got == data);
  EXPECT_EQ(in_second.state, State::kFailed);
}

struct Difference {
  MessageTag sent;
  MessageTag expected;
  std::size_t sent_bytes;
  std::size_t expected_bytes;
};

TEST_P(Conformance, AMessageThatDiffersFailsBothSidesAndShowsBothCalls) {
  const CallSignature reduce{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 25000};
  const CallSignature bcast{Collective::kBroadcast, DataType::kInt8, ReduceOp::kSum, 1, 100000};
  Lane lane = 0;
  for (const Difference& difference : {Difference{{7, reduce}, {7, bcast}, 100000, 100000},
                                       Difference{{7, reduce}, {8, reduce}, 100000, 100000},
                                       Difference{{7, reduce}, {7, reduce}, 100000, 99999},
                                       Difference{{7, reduce}, {7, bcast}, 100, 100}})
    for (const bool receiver_first : {true, false}) {
      ++lane;
      const Bytes data = pattern(difference.sent_bytes, 1);
      Bytes got(difference.expected_bytes);
      Transfer out;
      Transfer in;
      if (receiver_first) pair_.b->recv(lane_of(lane), difference.expected, got, in);
      pair_.a->send(lane_of(lane), difference.sent, data, out);
      settle();
      if (!receiver_first) pair_.b->recv(lane_of(lane), difference.expected, got, in);
      ASSERT_TRUE(drive(in) && drive(out));
      settle();
      Transfer later;  // an eager send may have completed before: the next one knows
      pair_.a->send(lane_of(lane), difference.sent, data, later);
      ASSERT_TRUE(drive(later));
      if (difference.sent_bytes > kEagerLimit) {
        EXPECT_EQ(out.state, State::kFailed);
      }
      for (const Transfer* failed : {&in, &later}) {
        EXPECT_EQ(failed->state, State::kFailed);
        EXPECT_EQ(failed->error.code, Code::kInvalidUsage);
        EXPECT_THAT(failed->error.what, HasSubstr(describe(difference.sent.call)));
        EXPECT_THAT(failed->error.what, HasSubstr(describe(difference.expected.call)));
        EXPECT_THAT(failed->error.what, HasSubstr("rank 0 sent"));
      }
      EXPECT_EQ(in.error.peer, 0);
      EXPECT_EQ(later.error.peer, 1);
    }
}

TEST_P(Conformance, ASendAgreesWithAReceiveOfTheSameCount) {
  const Bytes data = pattern(64, 1);
  Bytes got(64);
  Transfer out;
  Transfer in;
  pair_.a->send(lane_of(0), {1, {Collective::kSend, DataType::kInt8, ReduceOp::kSum, 1, 64}}, data,
                out);
  pair_.b->recv(lane_of(0), {1, {Collective::kRecv, DataType::kInt8, ReduceOp::kSum, 0, 64}}, got,
                in);
  ASSERT_TRUE(drive(in) && drive(out));
  EXPECT_TRUE(in.state == State::kDone && got == data) << in.error.what;
}

TEST_P(Conformance, AGoodbyeFailsWhatIsPendingAndComesLater) {
  Bytes got(1 << 20);
  Transfer in;
  recv(0, 1, got, in);
  settle();
  EXPECT_TRUE(pair_.b->health());
  pair_.a.reset();
  ASSERT_TRUE(drive(in));
  EXPECT_EQ(in.state, State::kFailed);
  EXPECT_EQ(in.error.code, Code::kPeerFailed);
  EXPECT_EQ(in.error.peer, 0);
  EXPECT_THAT(in.error.what, HasSubstr("rank 0 has left"));
  Transfer later;
  pair_.b->send(back_lane_of(1), tag_of(1, got.size()), got, later);
  EXPECT_EQ(later.state, State::kFailed);
  const Status health = pair_.b->health();
  ASSERT_FALSE(health);
  EXPECT_EQ(health.error().peer, 0);
}

TEST_P(Conformance, WhatWasSentBeforeAGoodbyeIsDelivered) {
  if (GetParam()->short_ones_wait) GTEST_SKIP() << "nothing is sent before its receiver comes";
  const Bytes data = pattern(5000, 1);
  std::deque<Transfer> outs(10);
  for (int i = 0; i < 10; ++i) send(0, i, data, outs[i]);
  ASSERT_TRUE(drive(outs.back()));
  pair_.a.reset();
  for (int i = 0; i < 10; ++i) {
    Bytes got(5000);
    Transfer in;
    recv(0, i, got, in);
    ASSERT_TRUE(drive(in));
    ASSERT_TRUE(in.state == State::kDone && got == data) << in.error.what;
  }
}

TEST_P(Conformance, ALostWireFailsBothSidesMidMessage) {
  if (!pair_.kill) GTEST_SKIP() << "only the death of a process cuts this one: see processes_test";
  const Bytes data = pattern(4 << 20, 1);
  Bytes got(data.size());
  Transfer out;
  Transfer in;
  recv(0, 1, got, in);
  send(0, 1, data, out);
  for (int i = 0; i < 20; ++i) pair_.a->progress(), pair_.b->progress();
  pair_.kill();
  ASSERT_TRUE(drive(in) && drive(out));
  for (const Transfer* transfer : {&in, &out}) {
    EXPECT_EQ(transfer->state, State::kFailed);
    EXPECT_EQ(transfer->error.code, Code::kPeerFailed);
  }
  EXPECT_FALSE(pair_.a->health());
  EXPECT_FALSE(pair_.b->health());
}

TEST_P(Conformance, SeveralThreadsShareAConnection) {
  constexpr int kThreads = 4;
  constexpr int kMessages = 200;
  std::atomic<int> wrong{0};
  const auto worker = [&](Connection& connection, bool sends, Lane lane) {
    const Deadline deadline = Deadline::after(std::chrono::seconds(20));
    for (int i = 0; i < kMessages; ++i) {
      const std::size_t bytes = i % 10 == 0 ? 50000 : 100;
      Bytes data = sends ? pattern(bytes, i) : Bytes(bytes);
      Transfer transfer;
      if (sends)
        connection.send(lane_of(lane), tag_of(i, bytes), data, transfer);
      else
        connection.recv(lane_of(lane), tag_of(i, bytes), data, transfer);
      while (pending(transfer) && !deadline.passed())
        if (!connection.progress()) std::this_thread::yield();
      if (pending(transfer)) connection.cancel(lane_of(lane), transfer);
      if (transfer.state != State::kDone || data != pattern(bytes, i)) ++wrong;
    }
    // A send may be done while its bytes still wait here, and the last to leave must see to them.
    while (connection.wants_write() && !deadline.passed())
      if (!connection.progress()) std::this_thread::yield();
  };
  {
    std::vector<std::jthread> threads;
    for (Lane lane = 0; lane < kThreads; ++lane) {
      threads.emplace_back(worker, std::ref(*pair_.a), true, lane);
      threads.emplace_back(worker, std::ref(*pair_.b), false, lane);
    }
  }
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Transports, Conformance,
                         ::testing::Values(&loopback_medium(), &striped_loopback_medium(),
                                           &tcp_medium(), &striped_tcp_medium(), &shm_medium(),
                                           &checked_loopback_medium(), &checked_tcp_medium(),
                                           &checked_shm_medium()),
                         [](const auto& info) { return info.param->name; });
INSTANTIATE_TEST_SUITE_P(NcclNet, Conformance, ::testing::ValuesIn(nccl_net_media()),
                         [](const auto& info) { return info.param->name; });
#if TUTTI_HAVE_IBVERBS
INSTANTIATE_TEST_SUITE_P(Rdma, Conformance,
                         ::testing::Values(&verbs_medium(), &registered_verbs_medium(),
                                           &device_lanes_medium(), &hostile_verbs_medium(),
                                           &checked_verbs_medium()),
                         [](const auto& info) { return info.param->name; });
#endif
#if TUTTI_HAVE_UCX
INSTANTIATE_TEST_SUITE_P(Ucx, Conformance, ::testing::Values(&ucx_medium(), &ucx_shm_medium()),
                         [](const auto& info) { return info.param->name; });
#endif

}  // namespace
}  // namespace tutti::testing
