// The C API on real communicators: ranks of one process, driven by one thread through groups.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl.h"
#include "tutti/tutti.h"

namespace {

constexpr std::size_t kCount = 1003;

/// n communicators of one process, destroyed with the scope.
struct Ranks {
  explicit Ranks(int n) : comms(n) {
    EXPECT_EQ(ncclCommInitAll(comms.data(), n, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
  }
  ~Ranks() {
    for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }
  [[nodiscard]] int size() const { return static_cast<int>(comms.size()); }
  std::vector<ncclComm_t> comms;
};

/// Calls `each(rank)` for all ranks inside one group.
template <class Each>
ncclResult_t grouped(const Ranks& ranks, Each&& each) {
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  for (int rank = 0; rank < ranks.size(); ++rank) EXPECT_EQ(each(rank), ncclSuccess);
  return ncclGroupEnd();
}

using Buffers = std::vector<std::vector<int>>;

/// Element i of rank r's input: differs between ranks and elements.
int input(int rank, std::size_t i) { return 1000 * (rank + 1) + static_cast<int>(i % 97); }

Buffers inputs(int ranks, std::size_t count) {
  Buffers buffers(ranks, std::vector<int>(count));
  for (int r = 0; r < ranks; ++r) {
    for (std::size_t i = 0; i < count; ++i) buffers[r][i] = input(r, i);
  }
  return buffers;
}

int sum(int ranks, std::size_t i) {
  int total = 0;
  for (int r = 0; r < ranks; ++r) total += input(r, i);
  return total;
}

class OneThread : public testing::TestWithParam<int> {
 protected:
  const int n_ = GetParam();
  const Ranks ranks_{n_};
  const std::size_t large_ = kCount * n_;
};

TEST_P(OneThread, DrivesAllReduceOutOfPlaceAndInPlace) {
  Buffers in = inputs(n_, kCount);
  Buffers out(n_, std::vector<int>(kCount));
  const auto reduce_into = [&](Buffers& to) {
    return grouped(ranks_, [&](int r) {
      return ncclAllReduce(in[r].data(), to[r].data(), kCount, ncclInt, ncclSum, ranks_.comms[r],
                           nullptr);
    });
  };
  ASSERT_EQ(reduce_into(out), ncclSuccess) << ncclGetLastError(nullptr);
  ASSERT_EQ(reduce_into(in), ncclSuccess) << ncclGetLastError(nullptr);
  for (int r = 0; r < n_; ++r) {
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(out[r][i], sum(n_, i));
    ASSERT_EQ(in[r], out[r]);
  }
}

TEST_P(OneThread, DrivesAllGatherAndReduceScatter) {
  const Buffers in = inputs(n_, kCount);
  Buffers all(n_, std::vector<int>(large_));
  ASSERT_EQ(grouped(ranks_,
                    [&](int r) {
                      return ncclAllGather(in[r].data(), all[r].data(), kCount, ncclInt,
                                           ranks_.comms[r], nullptr);
                    }),
            ncclSuccess);
  const Buffers wide = inputs(n_, large_);
  Buffers mine(n_, std::vector<int>(kCount));
  ASSERT_EQ(grouped(ranks_,
                    [&](int r) {
                      return ncclReduceScatter(wide[r].data(), mine[r].data(), kCount, ncclInt,
                                               ncclSum, ranks_.comms[r], nullptr);
                    }),
            ncclSuccess);
  for (int r = 0; r < n_; ++r) {
    for (std::size_t i = 0; i < large_; ++i) {
      ASSERT_EQ(all[r][i], input(static_cast<int>(i / kCount), i % kCount));
    }
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(mine[r][i], sum(n_, r * kCount + i));
  }
}

TEST_P(OneThread, DrivesBroadcastReduceGatherAndScatter) {
  const int root = n_ - 1;
  const Buffers in = inputs(n_, kCount);
  const Buffers wide = inputs(n_, large_);
  Buffers copied(n_, std::vector<int>(kCount));
  Buffers scattered(n_, std::vector<int>(kCount));
  std::vector<int> reduced(kCount);
  std::vector<int> gathered(large_);
  ASSERT_EQ(grouped(ranks_,
                    [&](int r) {
                      ncclComm_t comm = ranks_.comms[r];
                      const bool at_root = r == root;
                      EXPECT_EQ(ncclBroadcast(at_root ? in[r].data() : nullptr, copied[r].data(),
                                              kCount, ncclInt, root, comm, nullptr),
                                ncclSuccess);
                      EXPECT_EQ(ncclReduce(in[r].data(), at_root ? reduced.data() : nullptr, kCount,
                                           ncclInt, ncclSum, root, comm, nullptr),
                                ncclSuccess);
                      EXPECT_EQ(ncclGather(in[r].data(), at_root ? gathered.data() : nullptr,
                                           kCount, ncclInt, root, comm, nullptr),
                                ncclSuccess);
                      return ncclScatter(at_root ? wide[r].data() : nullptr, scattered[r].data(),
                                         kCount, ncclInt, root, comm, nullptr);
                    }),
            ncclSuccess)
      << ncclGetLastError(nullptr);
  for (int r = 0; r < n_; ++r) {
    ASSERT_EQ(copied[r], in[root]);
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(scattered[r][i], input(root, r * kCount + i));
      ASSERT_EQ(gathered[r * kCount + i], input(r, i));
    }
  }
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(reduced[i], sum(n_, i));
}

TEST_P(OneThread, DrivesAllToAllAndMessages) {
  const Buffers wide = inputs(n_, large_);
  Buffers swapped(n_, std::vector<int>(large_));
  ASSERT_EQ(grouped(ranks_,
                    [&](int r) {
                      return ncclAlltoAll(wide[r].data(), swapped[r].data(), kCount, ncclInt,
                                          ranks_.comms[r], nullptr);
                    }),
            ncclSuccess);
  Buffers received(n_, std::vector<int>(large_));
  ASSERT_EQ(grouped(ranks_,
                    [&](int r) {
                      for (int peer = 0; peer < n_; ++peer) {
                        EXPECT_EQ(ncclRecv(&received[r][peer * kCount], kCount, ncclInt, peer,
                                           ranks_.comms[r], nullptr),
                                  ncclSuccess);
                        EXPECT_EQ(ncclSend(&wide[r][peer * kCount], kCount, ncclInt, peer,
                                           ranks_.comms[r], nullptr),
                                  ncclSuccess);
                      }
                      return ncclSuccess;
                    }),
            ncclSuccess)
      << ncclGetLastError(nullptr);
  for (int r = 0; r < n_; ++r) {
    for (std::size_t i = 0; i < large_; ++i) {
      ASSERT_EQ(swapped[r][i], input(static_cast<int>(i / kCount), r * kCount + i % kCount));
    }
    ASSERT_EQ(received[r], swapped[r]);
  }
}

TEST_P(OneThread, MayGoOnAfterAMessageToOneselfThatNobodyReceives) {
  std::vector<int> one(n_, 1), total(n_);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < n_; ++r) {
    EXPECT_EQ(ncclAllReduce(&one[r], &total[r], 1, ncclInt, ncclSum, ranks_.comms[r], nullptr),
              ncclSuccess);
  }
  EXPECT_EQ(ncclSend(&one[0], 1, ncclInt, 0, ranks_.comms[0], nullptr), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("1 sends to itself and 0 receives"),
            std::string::npos)
      << ncclGetLastError(nullptr);
  EXPECT_EQ(ncclRecv(&one[0], 1, ncclInt, 0, ranks_.comms[0], nullptr), ncclInvalidUsage);
  ASSERT_EQ(grouped(ranks_,
                    [&](int r) {
                      return ncclAllReduce(&one[r], &total[r], 1, ncclInt, ncclSum, ranks_.comms[r],
                                           nullptr);
                    }),
            ncclSuccess)
      << ncclGetLastError(nullptr);
  EXPECT_EQ(total, std::vector<int>(n_, n_));
}

TEST_P(OneThread, ScalesBeforeItSums) {
  std::vector<ncclRedOp_t> ops(n_);
  std::vector<float> scalars(n_), in(n_, 4.0F), out(n_);
  float expected = 0;
  for (int r = 0; r < n_; ++r) {
    scalars[r] = 0.5F * static_cast<float>(r + 1);
    expected += 4.0F * scalars[r];
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&ops[r], &scalars[r], ncclFloat, ncclScalarHostImmediate,
                                       ranks_.comms[r]),
              ncclSuccess);
  }
  ASSERT_EQ(grouped(ranks_,
                    [&](int r) {
                      const ncclResult_t added = ncclAllReduce(&in[r], &out[r], 1, ncclFloat,
                                                               ops[r], ranks_.comms[r], nullptr);
                      EXPECT_EQ(ncclRedOpDestroy(ops[r], ranks_.comms[r]), ncclSuccess);
                      return added;
                    }),
            ncclSuccess);
  for (float value : out) EXPECT_EQ(value, expected);
}

TEST_P(OneThread, SplitsInsideAGroupAndUsesTheParts) {
  std::vector<ncclComm_t> parts(n_);
  ASSERT_EQ(grouped(ranks_,
                    [&](int r) {
                      const int color = r == 0 ? NCCL_SPLIT_NOCOLOR : r % 2;
                      return ncclCommSplit(ranks_.comms[r], color, -r, &parts[r], nullptr);
                    }),
            ncclSuccess)
      << ncclGetLastError(nullptr);
  EXPECT_EQ(parts[0], nullptr);
  std::vector<int> one(n_, 1), members(n_);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 1; r < n_; ++r) {
    EXPECT_EQ(ncclAllReduce(&one[r], &members[r], 1, ncclInt, ncclSum, parts[r], nullptr),
              ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  for (int r = 1; r < n_; ++r) {
    EXPECT_EQ(members[r], r % 2 == 1 ? n_ / 2 : (n_ - 1) / 2);
    EXPECT_EQ(ncclCommDestroy(parts[r]), ncclSuccess);
  }
}

TEST_P(OneThread, QueuesCallsOnAStreamPerRank) {
  std::vector<tuttiStream_t> streams(n_);
  for (tuttiStream_t& stream : streams) ASSERT_EQ(tuttiStreamCreate(&stream), ncclSuccess);
  Buffers data = inputs(n_, kCount);
  for (int r = 0; r < n_; ++r) {  // no group: the streams wait for each other, the caller does not
    ASSERT_EQ(ncclAllReduce(data[r].data(), data[r].data(), kCount, ncclInt, ncclSum,
                            ranks_.comms[r], reinterpret_cast<cudaStream_t>(streams[r])),
              ncclSuccess);
  }
  for (int r = 0; r < n_; ++r) {
    ASSERT_EQ(tuttiStreamSynchronize(streams[r]), ncclSuccess) << ncclGetLastError(ranks_.comms[r]);
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(data[r][i], sum(n_, i));
    ASSERT_EQ(tuttiStreamDestroy(streams[r]), ncclSuccess);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, OneThread, testing::Values(1, 2, 3, 8));

TEST(UniqueId, JoinsSeveralRanksOfOneThreadInsideAGroup) {
  constexpr int kRanks = 3;
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess) << ncclGetLastError(nullptr);
  ncclComm_t comms[kRanks] = {};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < kRanks; ++r) {
    ASSERT_EQ(ncclCommInitRank(&comms[r], kRanks, id, r), ncclSuccess);
  }
  EXPECT_EQ(ncclCommFinalize(comms[0]), ncclInvalidArgument) << "it does not exist yet";
  ASSERT_EQ(ncclGroupEnd(), ncclInvalidArgument) << "the error inside comes again";
  for (ncclComm_t comm : comms) EXPECT_EQ(comm, nullptr);

  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < kRanks; ++r) {
    ASSERT_EQ(ncclCommInitRank(&comms[r], kRanks, id, r), ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  for (int r = 0; r < kRanks; ++r) {
    int rank = -1;
    EXPECT_EQ(ncclCommUserRank(comms[r], &rank), ncclSuccess);
    EXPECT_EQ(rank, r);
    EXPECT_EQ(ncclCommDestroy(comms[r]), ncclSuccess);
  }
}

TEST(NonBlocking, InitIsAskedForAndCallsRunBehind) {
  constexpr int kRanks = 2;
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comms[kRanks] = {};
  const auto settle = [&] {
    for (ncclComm_t comm : comms) {
      ncclResult_t state = ncclInProgress;
      while (state == ncclInProgress) {
        ASSERT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
        std::this_thread::yield();
      }
      ASSERT_EQ(state, ncclSuccess) << ncclGetLastError(comm);
    }
  };
  for (int r = 0; r < kRanks; ++r) {
    ASSERT_EQ(ncclCommInitRankConfig(&comms[r], kRanks, id, r, &config), ncclInProgress);
    ASSERT_NE(comms[r], nullptr);
  }
  settle();
  int in[kRanks] = {3, 4}, out[kRanks] = {};
  for (int r = 0; r < kRanks; ++r) {
    ASSERT_EQ(ncclAllReduce(&in[r], &out[r], 1, ncclInt, ncclSum, comms[r], nullptr),
              ncclInProgress);
  }
  settle();
  EXPECT_EQ(out[0], 7);
  EXPECT_EQ(out[1], 7);
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

// The split waits for rank 1, which never comes, and belongs to a worker thread by then or not yet.
TEST(NonBlocking, AbortingTheParentEndsASplitThatJustBegan) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  for (int repeat = 0; repeat < 50; ++repeat) {
    ncclComm_t parents[2] = {}, child = nullptr;
    ASSERT_EQ(ncclCommInitAll(parents, 2, nullptr), ncclSuccess);
    ASSERT_EQ(ncclCommSplit(parents[0], 0, 0, &child, &config), ncclInProgress);
    if (repeat % 2 == 1) std::this_thread::yield();
    EXPECT_EQ(ncclCommAbort(parents[0]), ncclSuccess);
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
      ASSERT_EQ(ncclCommGetAsyncError(child, &state), ncclSuccess);
      std::this_thread::yield();
    }
    EXPECT_NE(state, ncclSuccess);
    EXPECT_EQ(ncclCommAbort(child), ncclSuccess);
    EXPECT_EQ(ncclCommAbort(parents[1]), ncclSuccess);
  }
}

// The handle is the last one that was given back, so that the next init reuses it at once.
TEST(Abort, OfABlockingInitByAnotherThreadHarmsNoLaterCommunicator) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ncclComm_t comm = nullptr;
    std::atomic_ref<ncclComm_t> seen(comm);
    std::thread init([&] { EXPECT_NE(ncclCommInitRank(&comm, 2, id, 0), ncclSuccess); });
    ncclComm_t handle = nullptr;
    while ((handle = seen.load()) == nullptr) std::this_thread::yield();
    EXPECT_EQ(ncclCommAbort(handle), ncclSuccess);
    ncclComm_t later[2] = {};
    EXPECT_EQ(ncclCommInitAll(later, 2, nullptr), ncclSuccess);
    init.join();
    for (ncclComm_t one : later) {
      int count = 0;
      EXPECT_EQ(ncclCommCount(one, &count), ncclSuccess);
      EXPECT_EQ(ncclCommDestroy(one), ncclSuccess);
    }
  }
}

/// Shrinks three ranks to two, which must work.
void expect_shrinks_without_rank_1(const Ranks& ranks) {
  ncclComm_t left[3] = {};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r : {0, 2}) {
    int excluded = 1;
    ASSERT_EQ(ncclCommShrink(ranks.comms[r], &excluded, 1, &left[r], nullptr, NCCL_SHRINK_DEFAULT),
              ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  int one = 1, sums[3] = {};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r : {0, 2}) {
    ASSERT_EQ(ncclAllReduce(&one, &sums[r], 1, ncclInt, ncclSum, left[r], nullptr), ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  for (int r : {0, 2}) {
    EXPECT_EQ(sums[r], 2);
    EXPECT_EQ(ncclCommDestroy(left[r]), ncclSuccess);
  }
}

TEST(Shrink, LeavesTheOthersWorking) { expect_shrinks_without_rank_1(Ranks(3)); }

TEST(Revoke, EndsWhatPeersWaitForAndLeavesShrinkToThem) {
  const Ranks ranks(3);
  tuttiStream_t stream = nullptr;
  ASSERT_EQ(tuttiStreamCreate(&stream), ncclSuccess);
  int value = 1;
  const auto call = [&](int rank, tuttiStream_t on = nullptr) {
    return ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, ranks.comms[rank],
                         reinterpret_cast<cudaStream_t>(on));
  };
  ASSERT_EQ(call(1, stream), ncclSuccess);  // waits for rank 0, which never calls
  ASSERT_EQ(ncclCommRevoke(ranks.comms[0], NCCL_REVOKE_DEFAULT), ncclSuccess);

  EXPECT_EQ(tuttiStreamSynchronize(stream), ncclRemoteError);
  EXPECT_EQ(tuttiStreamDestroy(stream), ncclSuccess);
  EXPECT_EQ(call(0), ncclInvalidUsage);
  for (int r : {1, 2}) {
    EXPECT_EQ(call(r), ncclRemoteError);
    EXPECT_NE(std::string(ncclGetLastError(ranks.comms[r])).find("rank 0 called ncclCommRevoke"),
              std::string::npos)
        << ncclGetLastError(ranks.comms[r]);
    ncclResult_t state = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(ranks.comms[r], &state), ncclSuccess);
    EXPECT_EQ(state, ncclRemoteError);
  }
  expect_shrinks_without_rank_1(ranks);
}

TEST(Finalize, CompletesWhatStreamsHoldAndLeavesGettersAndDestroy) {
  const Ranks ranks(3);
  std::vector<tuttiStream_t> streams(3);
  int in[3] = {1, 2, 3}, out[3] = {};
  const auto call = [&](int r) {
    return ncclAllReduce(&in[r], &out[r], 1, ncclInt, ncclSum, ranks.comms[r],
                         reinterpret_cast<cudaStream_t>(streams[r]));
  };
  for (int r = 0; r < 3; ++r) {
    ASSERT_EQ(tuttiStreamCreate(&streams[r]), ncclSuccess);
    ASSERT_EQ(call(r), ncclSuccess);
  }
  const auto finalize = [&](int r) { return ncclCommFinalize(ranks.comms[r]); };
  ASSERT_EQ(grouped(ranks, finalize), ncclSuccess) << ncclGetLastError(nullptr);
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(out[r], 6);
    EXPECT_EQ(call(r), ncclInvalidArgument);
    EXPECT_EQ(finalize(r), ncclInvalidArgument);
    int rank = -1;
    EXPECT_EQ(ncclCommUserRank(ranks.comms[r], &rank), ncclSuccess);
    EXPECT_EQ(rank, r);
    EXPECT_EQ(tuttiStreamDestroy(streams[r]), ncclSuccess);
  }
}

TEST(Registration, OfBuffersAndWindowsBelongsToOneCommunicator) {
  constexpr std::size_t kBytes = kCount * sizeof(int);
  const Ranks ranks(2);
  void* memory[2] = {};
  void* registered[2] = {};
  ncclWindow_t windows[2] = {};
  for (int r = 0; r < 2; ++r) {
    ncclComm_t comm = ranks.comms[r];
    ASSERT_EQ(ncclMemAlloc(&memory[r], kBytes), ncclSuccess);
    std::fill_n(static_cast<int*>(memory[r]), kCount, r + 1);
    ASSERT_EQ(ncclCommRegister(comm, memory[r], kBytes, &registered[r]), ncclSuccess);
    EXPECT_EQ(ncclCommWindowRegister(comm, memory[r], kBytes, &windows[r], 0x40),
              ncclInvalidArgument);
    ASSERT_EQ(ncclCommWindowRegister(comm, memory[r], kBytes, &windows[r], NCCL_WIN_COLL_SYMMETRIC),
              ncclSuccess);
  }
  ASSERT_EQ(grouped(ranks,
                    [&](int r) {
                      return ncclAllReduce(memory[r], memory[r], kCount, ncclInt, ncclSum,
                                           ranks.comms[r], nullptr);
                    }),
            ncclSuccess);
  for (int r = 0; r < 2; ++r) {
    const int* const sums = static_cast<int*>(memory[r]);
    EXPECT_EQ(std::count(sums, sums + kCount, 3), kCount);
    ncclComm_t own = ranks.comms[r], other = ranks.comms[1 - r];
    EXPECT_EQ(ncclCommDeregister(other, registered[r]), ncclInvalidArgument);
    EXPECT_EQ(ncclCommWindowDeregister(other, windows[r]), ncclInvalidArgument);
    EXPECT_EQ(ncclCommDeregister(own, registered[r]), ncclSuccess);
    EXPECT_EQ(ncclCommWindowDeregister(own, windows[r]), ncclSuccess);
    EXPECT_EQ(ncclCommWindowDeregister(own, windows[r]), ncclInvalidArgument);
    EXPECT_EQ(ncclMemFree(memory[r]), ncclSuccess);
  }
}

TEST(Fork, ChildrenOfAUserAreToldToExec) {
  const Ranks ranks(1);
  const pid_t child = fork();
  if (child == 0) {
    ncclUniqueId id;
    _exit(ncclGetUniqueId(&id) == ncclInvalidUsage ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

/// Restricts this thread, and those that it starts, to one of its CPUs.
void share_one_cpu() {
  cpu_set_t usable, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof usable, &usable), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &usable)) ++cpu;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
}

/// The watcher asks whether the streams are done, which moves nothing on.
TEST(Streams, FinishWhileTheirCallerOnlyComputesOnTheSameCpu) {
  std::atomic<bool> done = false;
  std::thread caller([&done] {
    share_one_cpu();
    const Ranks ranks(2);
    constexpr std::size_t kLarge = 1 << 18;  // several slices: the ranks have to take turns
    Buffers buffers = inputs(ranks.size(), kLarge);
    tuttiStream_t streams[2] = {};
    for (int r = 0; r < ranks.size(); ++r) {
      ASSERT_EQ(tuttiStreamCreate(&streams[r]), ncclSuccess);
      ASSERT_EQ(ncclAllReduce(buffers[r].data(), buffers[r].data(), kLarge, ncclInt, ncclSum,
                              ranks.comms[r], reinterpret_cast<cudaStream_t>(streams[r])),
                ncclSuccess);
    }
    std::thread watcher([&] {
      for (tuttiStream_t stream : streams) {
        while (tuttiStreamQuery(stream) == ncclInProgress) std::this_thread::yield();
      }
      done = true;
    });
    while (!done) {  // computes, and gives the CPU to nobody
    }
    watcher.join();
    for (int r = 0; r < ranks.size(); ++r) {
      for (std::size_t i = 0; i < kLarge; ++i) ASSERT_EQ(buffers[r][i], sum(ranks.size(), i));
    }
    for (tuttiStream_t stream : streams) EXPECT_EQ(tuttiStreamDestroy(stream), ncclSuccess);
  });
  caller.join();
}

TEST(GroupSimulateEnd, EstimatesMoreTimeForMoreDataAndRunsNothing) {
  const Ranks ranks(4);
  const auto estimate = [&](std::size_t count) {
    std::vector<int> data(4 * count, 1);
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (int rank = 0; rank < ranks.size(); ++rank) {
      int* const mine = data.data() + rank * count;
      EXPECT_EQ(ncclAllReduce(mine, mine, count, ncclInt, ncclSum, ranks.comms[rank], nullptr),
                ncclSuccess);
      EXPECT_EQ(ncclSend(mine, count, ncclInt, (rank + 1) % 4, ranks.comms[rank], nullptr),
                ncclSuccess);
      EXPECT_EQ(ncclRecv(mine, count, ncclInt, (rank + 3) % 4, ranks.comms[rank], nullptr),
                ncclSuccess);
    }
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess) << ncclGetLastError(nullptr);
    EXPECT_EQ(std::ranges::count(data, 1), static_cast<std::ptrdiff_t>(data.size()));
    return info.estimatedTime;
  };
  const float little = estimate(2);
  const float much = estimate(1 << 20);
  EXPECT_GT(little, 0);
  EXPECT_GT(much, 10 * little);
}

}  // namespace
