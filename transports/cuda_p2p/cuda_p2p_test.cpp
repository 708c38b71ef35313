// Ranks as threads of this process (test_job.hpp); processes_test.cpp has real ones.
#include "transports/cuda_p2p/cuda_p2p.hpp"

#include <string>
#include <vector>

#include "src/base/sanitized.hpp"
#include "transports/cuda_p2p/test_job.hpp"

namespace tutti::cuda_p2p {
namespace {

/// On devices of before memory handles.
class OldCudaP2p : public CudaP2p {
 protected:
  OldCudaP2p() : CudaP2p(FAKE_CUDA_OLD) {}
};

TEST_F(CudaP2p, JoinsThreadsOfOneProcess) {
  const auto outcomes = share(fake, {kThreads});
  expect_shared(outcomes);
  EXPECT_EQ((*outcomes[0])->describe(), "3 peers in this process");
}

TEST_F(CudaP2p, JoinsProcessesByFileDescriptors) {
  const auto outcomes = share(fake, {kProcesses});
  expect_shared(outcomes);
  EXPECT_EQ((*outcomes[0])->describe(), "2 peers by file descriptors");
}

TEST_F(CudaP2p, JoinsThreadsAndProcesses) {
  const auto outcomes = share(fake, {{{.device = 3, .process = 5},
                                      {.device = 1, .process = 6},
                                      {.device = 0, .process = 5},
                                      {.device = 2, .process = 6}}});
  expect_shared(outcomes);
  EXPECT_EQ((*outcomes[2])->describe(), "3 peers: 2 by file descriptors, 1 in this process");
}

TEST_F(CudaP2p, JoinsHostsByTheFabric) {
  ::setenv("FAKE_CUDA_FABRIC", "1", 1);  // NOLINT(concurrency-mt-unsafe)
  const auto outcomes = share(
      fake, {{{.device = 0, .process = 1, .host = "a"}, {.device = 1, .process = 2, .host = "b"}}});
  expect_shared(outcomes);
  EXPECT_EQ((*outcomes[0])->describe(), "1 peer by fabric handles");
}

TEST_F(CudaP2p, JoinsOneHostWhereTheFabricGivesNoHandles) {
  ::setenv("FAKE_CUDA_FABRIC", "1", 1);  // NOLINT(concurrency-mt-unsafe)
  fake.fail("cuMemExportToShareableHandle:1:800");
  const auto outcomes = share(fake, {kProcesses});  // one by descriptors, two for the fabric
  expect_shared(outcomes);
}

TEST_F(CudaP2p, FallsBackForHostsThatNoFabricJoins) {
  expect_fallback(
      {{{.device = 0, .process = 1, .host = "a"}, {.device = 1, .process = 2, .host = "b"}}},
      "rank 1 is not on the host of rank 0, whose GPU 0000:a0:00.0 has no memory "
      "handles for the fabric");
}

TEST_F(CudaP2p, FallsBackForRanksThatShareAGpu) {
  expect_fallback({{{.device = 0}, {.device = 1}, {.device = 0}}},
                  "ranks 0 and 2 share GPU 0000:a0:00.0");
}

TEST_F(CudaP2p, FallsBackForAreasOfDifferentSizes) {
  expect_fallback({{{.device = 0}, {.device = 1, .bytes = 8}}},
                  "rank 1 offers 8 bytes and rank 0 offers 5000");
}

TEST_F(CudaP2p, FallsBackForAnAreaThatIsTooLarge) {
  expect_fallback({{{.device = 0}, {.device = 1, .bytes = SIZE_MAX}}},
                  "rank 1: an area of 18446744073709551615 bytes: at most 1099511627776 can be");
}

TEST_F(CudaP2p, FallsBackForADeviceThatIsNotThere) {
  expect_fallback({{{.device = 0}, {.device = 9}}}, "rank 1: there is no CUDA device 9");
}

TEST_F(CudaP2p, FallsBackForGpusThatDoNotReachEachOther) {
  fake.peers(1);
  expect_fallback({kProcesses},
                  "rank 0: the driver lets GPU 0000:a0:00.0 not access GPU 0000:a1:00.0 of rank 1");
}

TEST_F(CudaP2p, FallsBackForCopiesThatHaveNoEnd) {
  ASSERT_TRUE(all_memory(share(fake, {kProcesses})));
  const long streams = fake.live("streams");
  fake.peers(2);
  expect_fallback({kProcesses, {.probe_deadline = std::chrono::milliseconds(200)}},
                  "rank 0: a copy of 64 bytes between GPU 0000:a0:00.0 of rank 0 and GPU "
                  "0000:a1:00.0 of rank 1 does not end: access control (ACS)");
  EXPECT_EQ(fake.live("streams"), streams + 3);  // no good time to give them back
}

TEST_F(CudaP2p, FallsBackForCopiesThatArriveWrong) {
  fake.peers(3);
  expect_fallback({kThreads},
                  "rank 0: what rank 1 stored arrived wrong between GPU 0000:a0:00.0 of rank 0 and "
                  "GPU 0000:a1:00.0 of rank 1");
}

TEST_F(OldCudaP2p, JoinsThreadsOfOneProcess) {
  const long before = fake.live("allocations");
  expect_shared(share(fake, {kThreads}));
  EXPECT_EQ(fake.live("allocations"), before);
}

TEST_F(OldCudaP2p, KeepsWhatOtherProcessesMayHaveOpen) {
  const long before = fake.live("allocations");
  // Handles cannot be opened in the process that made them, which these ranks share in truth.
  expect_fallback({kProcesses}, "cuIpcOpenMemHandle on device 0 failed");
  EXPECT_EQ(fake.live("allocations"), before + 3);
}

TEST_F(OldCudaP2p, FallsBackForCopiesThatHaveNoEnd) {
  fake.peers(2);
  expect_fallback({kThreads, {.probe_deadline = std::chrono::milliseconds(200)}}, "does not end");
}

TEST_F(CudaP2p, GivesEverythingBackAtItsEnd) {
  ASSERT_TRUE(all_memory(share(fake, {kThreads})));  // contexts are there for good
  const long before = fake.live("*");
  ASSERT_TRUE(all_memory(share(fake, {kThreads})));
  ASSERT_TRUE(all_memory(share(fake, {kProcesses})));
  ASSERT_TRUE(all_null(share(fake, {{{.device = 0}, {.device = 0}}})));
  EXPECT_EQ(fake.live("*"), before);
}

TEST_F(CudaP2p, IsUsableByPeersAfterItsOwnerEnded) {
  for (const auto& seats : {kThreads, kProcesses}) {
    auto outcomes = share(fake, {seats});
    ASSERT_TRUE(all_memory(outcomes));
    std::byte* const of_first = (*outcomes[1])->areas()[0];
    (*outcomes[0]).reset();
    EXPECT_TRUE(put(*fake, of_first, 5));
    EXPECT_EQ(get(*fake, (*outcomes[2])->areas()[0]), 5U);
  }
}

TEST_F(CudaP2p, EndsAlikeOnAllRanksWhicheverCallFails) {
  ::setenv("TUTTI_DEBUG", "NONE", 1);  // NOLINT(concurrency-mt-unsafe): hundreds of lines
  reset_log();
  for (const std::uint64_t process_of_other : {1, 2}) {
    const std::vector<Seat> seats{{.device = 0}, {.device = 1, .process = process_of_other}};
    fake.fail("");
    ASSERT_TRUE(all_memory(share(fake, {seats})));
    const long calls = fake.calls("*");
    long tried = 0, fallbacks = 0;
    for (long call = 1; call <= calls; call += kSanitized ? 7 : 1) {
      ++tried;
      fake.fail("*:" + std::to_string(call));
      const auto outcomes = share(fake, {seats});
      fake.fail("");
      if (all_null(outcomes))
        ++fallbacks;
      else
        ASSERT_TRUE(all_memory(outcomes)) << "after call " << call;
    }
    EXPECT_GT(fallbacks, tried / 4);
  }
}

TEST_F(CudaP2p, IsAnErrorWhereTheControlPlaneFails) {
  for (int failing = 1; failing <= 4; ++failing) {
    int gathers = 0;
    const auto outcome = make_cuda_p2p(fake.shared())
                             ->share({.bytes = kBytes,
                                      .key = kKey,
                                      .all_gather = [&](auto mine) -> Result<std::vector<Blob>> {
                                        if (++gathers == failing)
                                          return make_error(Code::kTimeout, "the network is cut");
                                        return std::vector<Blob>{{mine.begin(), mine.end()}};
                                      },
                                      .deadline = Deadline::after(kPatience)});
    ASSERT_FALSE(outcome) << failing;
    EXPECT_EQ(outcome.error().what, "the network is cut");
  }
}

TEST_F(CudaP2p, FallsBackForWordsItDoesNotUnderstand) {
  for (int garbled = 1; garbled <= 4; ++garbled) {
    int gathers = 0;
    const auto outcomes = share(fake, {.seats = {{.device = 0}}, .look = [&](auto& blobs) {
                                         if (++gathers == garbled) blobs[0] = {std::byte{99}};
                                       }});
    EXPECT_TRUE(all_null(outcomes)) << garbled;
    EXPECT_EQ(gathers, garbled);
  }
}

}  // namespace
}  // namespace tutti::cuda_p2p
