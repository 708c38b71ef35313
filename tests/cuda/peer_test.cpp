// Ranks whose GPUs reach each other's memory: a collective is one kernel on each, and nothing of it
// touches the host.
#include <latch>
#include <string>

#include <gmock/gmock.h>

#include "tests/cuda/ranks.hpp"

namespace tutti::testing_cuda {
namespace {

class PeerCall : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!has_device_code()) GTEST_SKIP() << "this build has no device code";
  }
  [[nodiscard]] Buffer<float> buffer(int rank, std::size_t count) const {
    return Buffer<float>(inputs(rank, count), rank);
  }
  const bool threads_ = GetParam();
};

TEST_P(PeerCall, IsOneKernelOnEachGpu) {
  const Ranks ranks(4, Gpus::kOwn);
  for (const std::size_t count : {std::size_t{2}, kFewElements, kSeveralSteps}) {
    std::vector<Buffer<float>> data;
    for (int r = 0; r < 4; ++r) data.push_back(buffer(r, count));
    count_anew();
    ranks.run(threads_, [&](int r) {
      EXPECT_EQ(ncclAllReduce(data[r].data(), data[r].data(), count, ncclFloat, ncclSum,
                              ranks.comms[r], ranks.streams[r]->get()),
                ncclSuccess)
          << ncclGetLastError(nullptr);
    });
    for (int r = 0; r < 4; ++r) {
      const auto sums = data[r].read(ranks.streams[r]->get());
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(sums[i], sum(4, i)) << i;
    }
    EXPECT_EQ(launches(), 4) << count;
    EXPECT_EQ(host_functions(), 0) << count;
  }
}

template <class T>
void expect_sums(const Ranks& ranks, bool threads, ncclDataType_t type) {
  constexpr std::size_t kCount = 1003;
  std::vector<Buffer<T>> data;
  for (int r = 0; r < ranks.size(); ++r) {
    std::vector<T> values(kCount);
    for (std::size_t i = 0; i < kCount; ++i) values[i] = static_cast<T>(i % 30 + r);
    data.emplace_back(values, ranks.devices[r]);
  }
  ranks.run(threads, [&](int r) {
    EXPECT_EQ(ncclAllReduce(data[r].data(), data[r].data(), kCount, type, ncclSum, ranks.comms[r],
                            ranks.streams[r]->get()),
              ncclSuccess);
  });
  for (int r = 0; r < ranks.size(); ++r) {
    const auto sums = data[r].read(ranks.streams[r]->get());
    for (std::size_t i = 0; i < kCount; ++i)
      ASSERT_EQ(sums[i], static_cast<T>(3 * (i % 30) + 3)) << "type " << type << ", element " << i;
  }
}

TEST_P(PeerCall, AddsNumbersOfSeveralTypes) {
  const Ranks ranks(3, Gpus::kOwn);
  expect_sums<std::int8_t>(ranks, threads_, ncclInt8);
  expect_sums<std::uint8_t>(ranks, threads_, ncclUint8);
  expect_sums<std::int32_t>(ranks, threads_, ncclInt32);
  expect_sums<std::uint64_t>(ranks, threads_, ncclUint64);
  expect_sums<double>(ranks, threads_, ncclDouble);
}

TEST_P(PeerCall, MovesBuffersThatAreNotAligned) {
  const Ranks ranks(2, Gpus::kOwn);
  std::vector<Buffer<std::byte>> data;
  const std::vector<float> values = inputs(0, kFewElements);
  for (int r = 0; r < 2; ++r) {
    std::vector<std::byte> bytes(kFewElements * sizeof(float) + 1);
    std::memcpy(bytes.data() + 1, values.data(), bytes.size() - 1);
    data.emplace_back(bytes, r);
  }
  count_anew();
  ranks.run(threads_, [&](int r) {
    EXPECT_EQ(ncclAllReduce(data[r].data() + 1, data[r].data() + 1, kFewElements, ncclFloat,
                            ncclSum, ranks.comms[r], ranks.streams[r]->get()),
              ncclSuccess);
  });
  for (int r = 0; r < 2; ++r) {
    const auto bytes = data[r].read(ranks.streams[r]->get());
    std::vector<float> sums(kFewElements);
    std::memcpy(sums.data(), bytes.data() + 1, bytes.size() - 1);
    for (std::size_t i = 0; i < kFewElements; ++i) ASSERT_EQ(sums[i], 2 * values[i]);
  }
  EXPECT_EQ(host_functions(), 0);
}

TEST_P(PeerCall, TakesTurnsWithCallsThatPassThroughTheHost) {
  const Ranks ranks(3, Gpus::kOwn);
  std::vector<Buffer<float>> data, theirs;
  for (int r = 0; r < 3; ++r) {
    data.push_back(buffer(r, kSeveralSteps));
    theirs.emplace_back(kSeveralSteps, r);
  }
  for (int round = 0; round < 3; ++round) {
    ranks.run(threads_, [&](int r) {
      EXPECT_EQ(ncclGroupStart(), ncclSuccess);
      EXPECT_EQ(ncclSend(data[r].data(), kSeveralSteps, ncclFloat, (r + 1) % 3, ranks.comms[r],
                         ranks.streams[r]->get()),
                ncclSuccess);
      EXPECT_EQ(ncclRecv(theirs[r].data(), kSeveralSteps, ncclFloat, (r + 2) % 3, ranks.comms[r],
                         ranks.streams[r]->get()),
                ncclSuccess);
      EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    });
    ranks.run(threads_, [&](int r) {
      EXPECT_EQ(
          ncclAllReduce(theirs[r].data(), data[r].data(), kSeveralSteps, ncclFloat,
                        round == 0 ? ncclSum : ncclMax, ranks.comms[r], ranks.streams[r]->get()),
          ncclSuccess);
    });
  }
  for (int r = 0; r < 3; ++r) {
    const auto sums = data[r].read(ranks.streams[r]->get());
    for (std::size_t i = 0; i < kSeveralSteps; ++i) ASSERT_EQ(sums[i], sum(3, i));
  }
}

TEST_P(PeerCall, MayBeReplayedByOneRankAndMadeAnewByAnother) {
  const Ranks ranks(2, Gpus::kOwn);
  std::vector<Buffer<float>> data;
  for (int r = 0; r < 2; ++r) data.push_back(buffer(r, kFewElements));
  const auto call = [&](int r) {
    EXPECT_EQ(ncclAllReduce(data[r].data(), data[r].data(), kFewElements, ncclFloat, ncclAvg,
                            ranks.comms[r], ranks.streams[r]->get()),
              ncclSuccess)
        << ncclGetLastError(nullptr);
  };
  const Graph graph(ranks.streams[0]->get(), [&] { call(0); });
  for (int replay = 0; replay < 3; ++replay) {
    graph.launch(ranks.streams[0]->get());
    call(1);
  }
  for (int r = 0; r < 2; ++r) EXPECT_EQ(data[r].read(ranks.streams[r]->get())[3], sum(2, 3) / 2);
}

TEST_P(PeerCall, OfManyShapesGivesUpTheirImages) {
  const Ranks ranks(2, Gpus::kOwn);
  std::vector<Buffer<float>> data;
  for (int r = 0; r < 2; ++r) data.push_back(buffer(r, kFewElements));
  const auto live = fake<FakeCudaLive>("fake_cuda_live");
  long after_some = 0;
  for (std::size_t call = 0; call < 1500; ++call) {
    ranks.run(threads_, [&](int r) {
      EXPECT_EQ(ncclAllReduce(data[r].data(), data[r].data(), 1 + call % 1000, ncclFloat, ncclMax,
                              ranks.comms[r], ranks.streams[r]->get()),
                ncclSuccess);
    });
    if (call % 100 == 0)
      for (int r = 0; r < 2; ++r) ranks.streams[r]->synchronize();
    if (call == 900) after_some = live("allocations");
  }
  EXPECT_EQ(live("allocations"), after_some);
  EXPECT_EQ(data[0].read(ranks.streams[0]->get())[7], input(1, 7));
}

TEST_P(PeerCall, OfSeveralCommunicatorsComesInAnyOrder) {
  const Ranks first(2, Gpus::kOwn), second(2, Gpus::kOwn);
  std::vector<Buffer<float>> a, b;
  for (int r = 0; r < 2; ++r) {
    a.push_back(buffer(r, kSeveralSteps));
    b.push_back(buffer(r, kFewElements));
  }
  const auto sum_up = [](const Ranks& ranks, std::vector<Buffer<float>>& data, int r) {
    EXPECT_EQ(ncclAllReduce(data[r].data(), data[r].data(), data[r].count(), ncclFloat, ncclSum,
                            ranks.comms[r], ranks.streams[r]->get()),
              ncclSuccess);
  };
  std::vector<std::jthread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      sum_up(r == 0 ? first : second, r == 0 ? a : b, r);
      sum_up(r == 0 ? second : first, r == 0 ? b : a, r);
    });
  threads.clear();
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(a[r].read(first.streams[r]->get())[5], sum(2, 5));
    EXPECT_EQ(b[r].read(second.streams[r]->get())[5], sum(2, 5));
  }
}

/// Enqueues `work` behind which the stream goes on once the latch is open.
void hold_up(const Ranks& ranks, int rank, std::latch& open) {
  const auto scope = must(driver()->make_current(rank));
  must(driver()->host_function(
      ranks.streams[rank]->get(), [](void* latch) { static_cast<std::latch*>(latch)->wait(); },
      &open));
}

/// Two ranks of which one ends the communicator.
class PeerAbort : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_device_code()) GTEST_SKIP() << "this build has no device code";
  }
  void TearDown() override {
    for (ncclComm_t comm : ranks_.comms) EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    ranks_.comms.clear();
  }
  [[nodiscard]] ncclResult_t call(int r, const Buffer<float>& data) const {
    return ncclAllReduce(data.data(), data.data(), data.count(), ncclFloat, ncclSum,
                         ranks_.comms[r], ranks_.streams[r]->get());
  }
  void abort(int rank) {
    EXPECT_EQ(ncclCommAbort(ranks_.comms[rank]), ncclSuccess);
    ranks_.comms.erase(ranks_.comms.begin() + rank);
  }
  Ranks ranks_{2, Gpus::kOwn};
};

TEST_F(PeerAbort, LeavesTheMemoryOfKernelsThatAGraphHasYetToRun) {
  const Buffer<float> data(inputs(0, kFewElements), 0);
  const Graph graph(ranks_.streams[0]->get(), [&] { EXPECT_EQ(call(0, data), ncclSuccess); });
  std::latch open(1);
  hold_up(ranks_, 0, open);
  graph.launch(ranks_.streams[0]->get());
  abort(0);
  open.count_down();
  ranks_.streams[0]->synchronize();
}

TEST_F(PeerAbort, LeavesTheMemoryOfKernelsBeforeACallThatDiffers) {
  const Buffer<float> first(inputs(0, kFewElements), 0), second(inputs(0, 7), 0),
      theirs(inputs(1, kFewElements), 1);
  std::latch open(1);
  hold_up(ranks_, 1, open);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(call(1, theirs), ncclSuccess);
  hold_up(ranks_, 0, open);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  (void)call(0, first);
  (void)call(0, second);
  EXPECT_NE(ncclGroupEnd(), ncclSuccess);
  std::jthread opener([&] { open.count_down(); });
  abort(0);
  ranks_.streams[0]->synchronize();
}

TEST_F(PeerAbort, LetsNoLaterCallBeTakenForTheOneThatGaveUp) {
  std::vector<float> ones(8, 1.0F), thousands(8, 1000.0F);
  const Buffer<float> first(ones, 0), second(thousands, 0), theirs(ones, 1);
  EXPECT_EQ(call(0, first), ncclSuccess);
  EXPECT_EQ(call(0, second), ncclSuccess);
  std::latch open(1);
  hold_up(ranks_, 1, open);
  EXPECT_EQ(call(1, theirs), ncclSuccess);
  abort(0);
  const auto scope = must(driver()->make_current(0));
  open.count_down();
  // It may have the data of the call that it makes, or have given up.
  EXPECT_THAT(theirs.read(ranks_.streams[1]->get())[3], testing::AnyOf(1.0F, 2.0F));
}

TEST_F(PeerAbort, LeavesOutputsOfOrdinaryMemoryAlone) {
  std::vector<float> in(kFewElements, 1.0F), out(kFewElements, -5.0F);
  ncclResult_t ended = ncclSuccess;
  std::jthread caller([&] {
    ended = ncclAllReduce(in.data(), out.data(), kFewElements, ncclFloat, ncclSum, ranks_.comms[0],
                          ranks_.streams[0]->get());
  });
  abort(1);
  caller.join();
  EXPECT_NE(ended, ncclSuccess);
  EXPECT_EQ(out[3], -5.0F);
}

INSTANTIATE_TEST_SUITE_P(Driven, PeerCall, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "ByAThreadEach" : "ByOneThread");
});

}  // namespace
}  // namespace tutti::testing_cuda
