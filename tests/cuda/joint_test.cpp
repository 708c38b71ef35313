// Ranks of one process that share a GPU: their collectives are kernels over the buffers of all.
#include <algorithm>
#include <string>

#include <gmock/gmock.h>

#include "tests/cuda/ranks.hpp"

namespace tutti::testing_cuda {
namespace {

class JointCall : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!has_device_code()) GTEST_SKIP() << "this build has no device code";
  }
  const bool threads_ = GetParam();
};

TEST_P(JointCall, IsOneKernelForASmallAllReduce) {
  const Ranks ranks(4);
  std::vector<Buffer<float>> in, out;
  for (int r = 0; r < 4; ++r) {
    in.emplace_back(inputs(r, 2));
    out.emplace_back(2);
  }
  count_anew();
  ranks.run(threads_, [&](int r) {
    EXPECT_EQ(ncclAllReduce(in[r].data(), out[r].data(), 2, ncclFloat, ncclSum, ranks.comms[r],
                            ranks.streams[r]->get()),
              ncclSuccess);
  });
  for (int r = 0; r < 4; ++r)
    EXPECT_EQ(out[r].read(ranks.streams[r]->get()), (std::vector{sum(4, 0), sum(4, 1)}));
  EXPECT_EQ(launches(), 1);
  EXPECT_EQ(host_functions(), 0);
}

TEST_P(JointCall, WritesMoreOutputsThanAKernelTakes) {
  const Ranks ranks(16);
  std::vector<Buffer<float>> data;
  for (int r = 0; r < 16; ++r) data.emplace_back(inputs(r, kSeveralSteps));
  count_anew();
  ranks.run(threads_, [&](int r) {
    EXPECT_EQ(ncclAllReduce(data[r].data(), data[r].data(), kSeveralSteps, ncclFloat, ncclAvg,
                            ranks.comms[r], ranks.streams[r]->get()),
              ncclSuccess);
  });
  for (int r = 0; r < 16; ++r) {
    const auto means = data[r].read(ranks.streams[r]->get());
    for (std::size_t i = 0; i < kSeveralSteps; ++i) ASSERT_EQ(means[i], sum(16, i) / 16);
  }
  EXPECT_EQ(host_functions(), 0);
}

TEST_P(JointCall, BroadcastsInPlaceWhereTheRootIs) {
  const Ranks ranks(3);
  std::vector<Buffer<float>> data;
  for (int r = 0; r < 3; ++r) data.emplace_back(inputs(r, kFewElements));
  count_anew();
  ranks.run(threads_, [&](int r) {
    EXPECT_EQ(ncclBcast(data[r].data(), kFewElements, ncclFloat, 1, ranks.comms[r],
                        ranks.streams[r]->get()),
              ncclSuccess);
  });
  for (int r = 0; r < 3; ++r)
    EXPECT_EQ(data[r].read(ranks.streams[r]->get()), inputs(1, kFewElements));
  EXPECT_EQ(host_functions(), 0);
}

TEST_P(JointCall, PassesThroughTheHostWhereARankIsBeingCaptured) {
  const Ranks ranks(2);
  std::vector<Buffer<float>> data;
  for (int r = 0; r < 2; ++r) data.emplace_back(inputs(r, kFewElements));
  const auto call = [&](int r) {
    EXPECT_EQ(ncclAllReduce(data[r].data(), data[r].data(), kFewElements, ncclFloat, ncclSum,
                            ranks.comms[r], ranks.streams[r]->get()),
              ncclSuccess);
  };
  const Graph graph(ranks.streams[0]->get(), [&] { call(0); });
  count_anew();
  graph.launch(ranks.streams[0]->get());
  call(1);
  for (int r = 0; r < 2; ++r) EXPECT_EQ(data[r].read(ranks.streams[r]->get())[3], sum(2, 3));
  EXPECT_EQ(launches(), 0);
}

TEST_P(JointCall, IsWaitedForByAllStreamsOfTheGroup) {
  const Ranks ranks(2);
  const Stream other;
  std::vector<Buffer<float>> data;
  for (int r = 0; r < 2; ++r) data.emplace_back(inputs(r, kSeveralSteps));
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int call = 0; call < 2; ++call)
    for (int r = 0; r < 2; ++r)
      EXPECT_EQ(ncclAllReduce(data[r].data(), data[r].data(), kSeveralSteps, ncclFloat,
                              call == 0 ? ncclSum : ncclMax, ranks.comms[r],
                              call == 0 ? ranks.streams[r]->get() : other.get()),
                ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  for (int r = 0; r < 2; ++r) EXPECT_EQ(data[r].read(other.get())[7], sum(2, 7));
}

INSTANTIATE_TEST_SUITE_P(Driven, JointCall, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "ByAThreadEach" : "ByOneThread");
});

}  // namespace
}  // namespace tutti::testing_cuda
