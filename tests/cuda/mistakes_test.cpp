// What goes wrong with GPU buffers, and what is unusual: a clear error or the right result, and
// never a hang.
#include <chrono>
#include <cstring>
#include <latch>
#include <string>

#include <gmock/gmock.h>
#include <sys/mman.h>

#include "src/base/sanitized.hpp"
#include "tests/cuda/ranks.hpp"
#include "tutti/tutti.h"

namespace tutti::testing_cuda {
namespace {

using testing::HasSubstr;

ncclResult_t all_reduce(const Ranks& ranks, int rank, const void* in, void* out,
                        std::size_t count = kFewElements) {
  return ncclAllReduce(in, out, count, ncclFloat, ncclSum, ranks.comms[rank],
                       ranks.streams[rank]->get());
}

/// The error that ended a communicator, once it has.
ncclResult_t await_error(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
       state == ncclSuccess && std::chrono::steady_clock::now() < end;) {
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    std::this_thread::yield();
  }
  return state;
}

/// Until what runs in the background is over.
void settle(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    std::this_thread::yield();
  }
  EXPECT_EQ(state, ncclSuccess);
}

/// Of two ranks.
class CudaMistake : public testing::TestWithParam<Gpus> {
 protected:
  Ranks ranks{2, GetParam()};
  [[nodiscard]] Buffer<float> buffer(int rank, std::size_t count = kFewElements) const {
    return Buffer<float>(inputs(rank, count), ranks.devices[rank]);
  }
};

TEST(CudaCommunicator, NamesItsDeviceAndHasNoWindows) {
  const Ranks ranks(2);
  const Buffer<float> data(kFewElements);
  int device = -1;
  EXPECT_EQ(ncclCommCuDevice(ranks.comms[1], &device), ncclSuccess);
  EXPECT_EQ(device, 0);
  ncclWindow_t window = nullptr;
  EXPECT_EQ(ncclCommWindowRegister(ranks.comms[0], data.data(), 4096, &window, 0), ncclSuccess);
  EXPECT_EQ(window, nullptr);
  EXPECT_EQ(ncclCommWindowDeregister(ranks.comms[0], window), ncclSuccess);
  EXPECT_EQ(ncclCommWindowRegister(ranks.comms[0], data.data(), 0, &window, 0),
            ncclInvalidArgument);
}

TEST(CudaCommunicator, TakesTheGpusInTurnWithoutAList) {
  constexpr int kRanks = 2 * kGpus;
  std::vector<ncclComm_t> comms(kRanks);
  ASSERT_EQ(ncclCommInitAll(comms.data(), kRanks, nullptr), ncclSuccess)
      << ncclGetLastError(nullptr);
  for (int rank = 0; rank < kRanks; ++rank) {
    int device = -1;
    EXPECT_EQ(ncclCommCuDevice(comms[rank], &device), ncclSuccess);
    EXPECT_EQ(device, rank % kGpus);
    EXPECT_EQ(ncclCommDestroy(comms[rank]), ncclSuccess);
  }
}

TEST(CudaCommunicator, IsNotMadeOfGpusThatAreNotThere) {
  std::vector<ncclComm_t> comms(2);
  const int devices[] = {0, 7};
  EXPECT_EQ(ncclCommInitAll(comms.data(), 2, devices), ncclInvalidArgument);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("devlist[1] is 7"));
}

TEST(CudaMemory, ComesFromTheDeviceAndGoesBack) {
  void* data = nullptr;
  ASSERT_EQ(ncclMemAlloc(&data, 3 << 20), ncclSuccess) << ncclGetLastError(nullptr);
  EXPECT_EQ(must(driver()->pointer(data)).kind, cuda::MemoryKind::kDevice);
  EXPECT_EQ(ncclMemFree(data), ncclSuccess);
  EXPECT_EQ(ncclMemFree(data), ncclInvalidArgument);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("freed before"));
}

TEST(CudaBuffers, OfOrdinaryHostMemoryAreNotCaptured) {
  const Ranks ranks(1);
  const cudaStream_t stream = ranks.streams[0]->get();
  std::vector<float> data(8);
  const Graph graph(stream, [&] {
    EXPECT_EQ(all_reduce(ranks, 0, data.data(), data.data(), 8), ncclInvalidUsage);
    EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("cannot be captured"));
  });
}

TEST_P(CudaMistake, BuffersThatWereFreedAreRefused) {
  constexpr std::size_t kBytes = 1 << 20;
  void* const freed =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_EQ(::munmap(freed, kBytes), 0);
  const Buffer<float> data = buffer(0);
  EXPECT_EQ(all_reduce(ranks, 0, freed, data.data()), ncclInvalidArgument);
  EXPECT_THAT(ncclGetLastError(ranks.comms[0]), HasSubstr("sendbuff"));
  EXPECT_EQ(all_reduce(ranks, 0, data.data(), freed), ncclInvalidArgument);
  EXPECT_THAT(ncclGetLastError(ranks.comms[0]), HasSubstr("was not freed"));
}

TEST(CudaBuffers, OfAnotherGpuAreRefusedByName) {
  const Ranks ranks(1);
  const Buffer<float> foreign(kFewElements, 1);
  EXPECT_EQ(all_reduce(ranks, 0, foreign.data(), foreign.data()), ncclInvalidArgument);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("is memory of GPU 1, but rank 0"));
}

TEST(CudaStreams, AreNotTuttis) {
  const Ranks ranks(1);
  tuttiStream_t stream = nullptr;
  ASSERT_EQ(tuttiStreamCreate(&stream), ncclSuccess);
  const Buffer<float> data(8);
  EXPECT_EQ(ncclAllReduce(data.data(), data.data(), 8, ncclFloat, ncclSum, ranks.comms[0],
                          reinterpret_cast<cudaStream_t>(stream)),
            ncclInvalidArgument);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("tuttiStream_t"));
  EXPECT_EQ(tuttiStreamDestroy(stream), ncclSuccess);
}

TEST(CudaStreams, OfOneGroupJoin) {
  const Ranks ranks(2);
  const Stream first, second;
  const std::vector<float> given = inputs(0, kFewElements);
  const Buffer<float> one(kFewElements), two(kFewElements), three(inputs(1, kFewElements)),
      four(inputs(1, kFewElements));
  one.write(given, first.get());
  two.write(given, second.get());
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  const auto reduce = [&](int rank, const Buffer<float>& data, cudaStream_t stream) {
    EXPECT_EQ(ncclAllReduce(data.data(), data.data(), kFewElements, ncclFloat, ncclSum,
                            ranks.comms[rank], stream),
              ncclSuccess);
  };
  reduce(0, one, first.get());
  reduce(0, two, second.get());
  reduce(1, three, ranks.streams[1]->get());
  reduce(1, four, ranks.streams[1]->get());
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  // Either stream waits for both.
  EXPECT_EQ(one.read(second.get()), four.read(ranks.streams[1]->get()));
  EXPECT_EQ(two.read(first.get()), three.read(ranks.streams[1]->get()));
}

TEST(CudaOperators, ReadTheirScalarWhenTheCallRuns) {
  const Ranks ranks(2);
  const Buffer<float> scalar(1);
  std::vector<Buffer<float>> data;
  std::vector<ncclRedOp_t> ops(2);
  for (int r = 0; r < 2; ++r) {
    data.emplace_back(inputs(r, kFewElements));
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&ops[r], scalar.data(), ncclFloat, ncclScalarDevice,
                                       ranks.comms[r]),
              ncclSuccess);
  }
  const std::vector<float> two = {2};
  for (int r = 0; r < 2; ++r) scalar.write(two, ranks.streams[r]->get());
  ranks.run(false, [&](int r) {
    EXPECT_EQ(ncclAllReduce(data[r].data(), data[r].data(), kFewElements, ncclFloat, ops[r],
                            ranks.comms[r], ranks.streams[r]->get()),
              ncclSuccess);
    EXPECT_EQ(ncclRedOpDestroy(ops[r], ranks.comms[r]), ncclSuccess);
  });
  for (int r = 0; r < 2; ++r) {
    const auto sums = data[r].read(ranks.streams[r]->get());
    for (std::size_t i = 0; i < kFewElements; ++i) ASSERT_EQ(sums[i], 2 * sum(2, i));
  }
}

TEST(CudaCommunicators, RunInAnyOrderOnOneGpu) {
  const Ranks first(2), second(2);
  std::vector<Buffer<float>> a, b;
  for (int r = 0; r < 2; ++r) {
    a.emplace_back(inputs(r, kFewElements));
    b.emplace_back(inputs(r, kFewElements));
  }
  first.run(true, [&](int r) {
    const auto call = [&](const Ranks& ranks, const Buffer<float>& data) {
      EXPECT_EQ(all_reduce(ranks, r, data.data(), data.data()), ncclSuccess);
    };
    if (r == 0) call(first, a[r]);
    call(second, b[r]);
    if (r == 1) call(first, a[r]);
  });
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(a[r].read(first.streams[r]->get())[5], sum(2, 5));
    EXPECT_EQ(b[r].read(second.streams[r]->get())[5], sum(2, 5));
  }
}

TEST(CudaCommunicators, SplitBehindCallsThatAreUnderWay) {
  const Ranks ranks(2);
  std::vector<Buffer<float>> data;
  for (int r = 0; r < 2; ++r) data.emplace_back(inputs(r, kSeveralSteps));
  ranks.run(true, [&](int r) {
    EXPECT_EQ(all_reduce(ranks, r, data[r].data(), data[r].data(), kSeveralSteps), ncclSuccess);
    ncclComm_t part = nullptr;
    ASSERT_EQ(ncclCommSplit(ranks.comms[r], 0, 1 - r, &part, nullptr), ncclSuccess);
    int device = -1;
    EXPECT_EQ(ncclCommCuDevice(part, &device), ncclSuccess);
    EXPECT_EQ(device, 0);
    EXPECT_EQ(ncclAllReduce(data[r].data(), data[r].data(), kSeveralSteps, ncclFloat, ncclMax, part,
                            ranks.streams[r]->get()),
              ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
  });
  for (int r = 0; r < 2; ++r) EXPECT_EQ(data[r].read(ranks.streams[r]->get())[9], sum(2, 9));
}

TEST(CudaCommunicators, AreFinalizedInTheBackgroundBehindCallsThatAreUnderWay) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::vector<Buffer<float>> data;
  for (int r = 0; r < 2; ++r) data.emplace_back(inputs(r, kSeveralSteps));
  const auto rank = [&](int r) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, r, &config), ncclInProgress);
    settle(comm);
    const Stream stream;
    EXPECT_EQ(ncclAllReduce(data[r].data(), data[r].data(), kSeveralSteps, ncclFloat, ncclSum, comm,
                            stream.get()),
              ncclSuccess);
    EXPECT_EQ(ncclCommFinalize(comm), ncclInProgress);
    settle(comm);
    EXPECT_EQ(data[r].read(stream.get())[11], sum(2, 11));
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  };
  std::jthread other(rank, 1);
  rank(0);
}

/// The steps of the call reach the host while a split has the communicator, and wait for their
/// turn.
TEST(CudaCommunicators, KeepStepsInOrderBehindASplit) {
  for (int round = 0; round < 6; ++round) {
    const Ranks ranks(2);
    std::vector<Buffer<float>> data;
    for (int r = 0; r < 2; ++r) data.emplace_back(inputs(r, kSeveralSteps));
    ranks.run(true, [&](int r) {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      ncclComm_t part = nullptr;
      EXPECT_EQ(ncclCommSplit(ranks.comms[r], 0, r, &part, &config), ncclInProgress);
      EXPECT_EQ(all_reduce(ranks, r, data[r].data(), data[r].data(), kSeveralSteps), ncclSuccess);
      settle(part);
      EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
    });
    for (int r = 0; r < 2; ++r) {
      const auto sums = data[r].read(ranks.streams[r]->get());
      for (std::size_t i = 0; i < kSeveralSteps; ++i) ASSERT_EQ(sums[i], sum(2, i)) << i;
    }
  }
}

TEST(CudaGraphs, GiveTheirSlotsBack) {
  const auto pinned = [] { return fake<FakeCudaLive>("fake_cuda_live")("registrations"); };
  const Ranks ranks(1);
  const cudaStream_t stream = ranks.streams[0]->get();
  const Buffer<float> data(inputs(0, kSeveralSteps));
  constexpr int kRounds = 12;
  const long before = pinned();
  for (int round = 0; round < kRounds; ++round) {
    const Graph graph(stream, [&] {
      EXPECT_EQ(all_reduce(ranks, 0, data.data(), data.data(), kSeveralSteps), ncclSuccess);
    });
    graph.launch(stream);
    ranks.streams[0]->synchronize();
  }
  // A graph's end comes when the driver gets to it, so a round may still see the slots of the last.
  EXPECT_LT(pinned() - before, kRounds);
}

TEST_P(CudaMistake, OrdinaryHostMemoryMakesACallSynchronous) {
  std::vector<std::vector<float>> in, out(2, std::vector<float>(kSeveralSteps));
  for (int r = 0; r < 2; ++r) in.push_back(inputs(r, kSeveralSteps));
  ranks.run(true, [&](int r) {
    EXPECT_EQ(all_reduce(ranks, r, in[r].data(), out[r].data(), kSeveralSteps), ncclSuccess);
    for (std::size_t i = 0; i < kSeveralSteps; ++i) ASSERT_EQ(out[r][i], sum(2, i));
    EXPECT_EQ(all_reduce(ranks, r, in[r].data(), in[r].data(), kSeveralSteps), ncclSuccess);
    EXPECT_EQ(in[r], out[r]);
  });
  ranks.run(false, [&](int r) {
    EXPECT_EQ(all_reduce(ranks, r, in[r].data(), in[r].data(), kFewElements), ncclSuccess);
  });
  for (int r = 0; r < 2; ++r) EXPECT_EQ(in[r][5], 2 * sum(2, 5));
}

TEST_P(CudaMistake, BuffersOfOneRankMayBeTheHostsAndOfAnotherTheGpus) {
  std::vector<float> hosts = inputs(0, kFewElements);
  const Buffer<float> gpus = buffer(1);
  ranks.run(true, [&](int r) {
    void* const data = r == 0 ? static_cast<void*>(hosts.data()) : gpus.data();
    EXPECT_EQ(all_reduce(ranks, r, data, data), ncclSuccess);
  });
  EXPECT_EQ(gpus.read(ranks.streams[1]->get()), hosts);
  EXPECT_EQ(hosts[5], sum(2, 5));
}

TEST_P(CudaMistake, AbortEndsACallThatWaitsForAPeer) {
  const Buffer<float> data = buffer(0);
  ASSERT_EQ(all_reduce(ranks, 0, data.data(), data.data()), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(ranks.comms[0]), ncclSuccess);
  ranks.streams[0]->synchronize();  // what waited goes on
  EXPECT_EQ(await_error(ranks.comms[1]), ncclRemoteError);
  EXPECT_EQ(ncclCommAbort(ranks.comms[1]), ncclSuccess);
  ranks.comms.clear();
}

TEST_P(CudaMistake, AbortOfAPeerIsAnErrorAndNoHang) {
  const Buffer<float> data = buffer(0);
  ASSERT_EQ(all_reduce(ranks, 0, data.data(), data.data()), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(ranks.comms[1]), ncclSuccess);
  EXPECT_EQ(await_error(ranks.comms[0]), ncclRemoteError);
  EXPECT_THAT(ncclGetLastError(ranks.comms[0]), HasSubstr("rank 1"));
  ranks.streams[0]->synchronize();
  EXPECT_NE(all_reduce(ranks, 0, data.data(), data.data()), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(ranks.comms[0]), ncclSuccess);
  ranks.comms.clear();
}

TEST_P(CudaMistake, CallsThatDifferAreAnErrorOnBothSides) {
  const Buffer<float> data[] = {buffer(0), buffer(1)};
  ranks.run(true, [&](int r) {
    // Of kernels that run by themselves the later one is not even enqueued.
    (void)ncclAllReduce(data[r].data(), data[r].data(), kFewElements - r, ncclFloat, ncclSum,
                        ranks.comms[r], ranks.streams[r]->get());
  });
  for (int r = 0; r < 2; ++r) {
    EXPECT_NE(await_error(ranks.comms[r]), ncclSuccess);
    EXPECT_THAT(ncclGetLastError(ranks.comms[r]), HasSubstr("count=1003"));
    EXPECT_THAT(ncclGetLastError(ranks.comms[r]), HasSubstr("count=1002"));
    ranks.streams[r]->synchronize();
    EXPECT_EQ(ncclCommAbort(ranks.comms[r]), ncclSuccess);
  }
  ranks.comms.clear();
}

/// Each driver call of a round of calls fails once: every round ends, with success or an error.
TEST_P(CudaMistake, AnyCallOfTheDriverMayFail) {
  const auto fail = fake<FakeCudaFail>("fake_cuda_fail");
  const auto calls = fake<FakeCudaCalls>("fake_cuda_calls");
  long most = 0, tried = 0, refused = 0;
  for (long k = 0; k <= most; k += kSanitized ? 7 : 1) {  // none at first, to count them
    ++tried;
    Ranks two(2, GetParam());
    std::vector<Buffer<float>> data;
    for (int r = 0; r < 2; ++r) data.push_back(buffer(r, kSeveralSteps));
    fail(k == 0 ? "" : ("*:" + std::to_string(k)).c_str());
    ncclResult_t result = ncclGroupStart();
    for (int r = 0; r < 2; ++r)
      if (all_reduce(two, r, data[r].data(), data[r].data(), kSeveralSteps) != ncclSuccess)
        result = ncclInternalError;
    if (ncclGroupEnd() != ncclSuccess) result = ncclInternalError;
    if (k == 0) most = calls("*");
    fail("");
    refused += result != ncclSuccess;
    for (int r = 0; r < 2 && result == ncclSuccess; ++r)
      EXPECT_EQ(data[r].read(two.streams[r]->get())[9], sum(2, 9)) << "driver call " << k;
    for (int r = 0; r < 2; ++r) {
      two.streams[r]->synchronize();
      EXPECT_EQ(result == ncclSuccess ? ncclCommDestroy(two.comms[r]) : ncclCommAbort(two.comms[r]),
                ncclSuccess);
    }
    two.comms.clear();
  }
  EXPECT_GT(refused, tried / 4) << "of " << tried << " driver calls";
}

INSTANTIATE_TEST_SUITE_P(, CudaMistake, testing::Values(Gpus::kShared, Gpus::kOwn),
                         [](const auto& info) {
                           return std::string(info.param == Gpus::kOwn ? "OnAGpuEach" : "OnOneGpu");
                         });

}  // namespace
}  // namespace tutti::testing_cuda
