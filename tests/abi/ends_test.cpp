// How communicators end, on real ones: late, behind a failed start, in a forked child.
#include <atomic>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl.h"
#include "tutti/tutti.h"

namespace {

// Read by the library when it is used first.
[[maybe_unused]] const int kTimeout = setenv("TUTTI_INIT_TIMEOUT", "3", 1);

/// Two ranks of this process, and a stream on which the first one waits for the second.
struct Waiting {
  Waiting() {
    EXPECT_EQ(ncclCommInitAll(comms, 2, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
    EXPECT_EQ(tuttiStreamCreate(&stream), ncclSuccess);
    EXPECT_EQ(ncclAllReduce(&in, &out, 1, ncclInt, ncclSum, comms[0],
                            reinterpret_cast<cudaStream_t>(stream)),
              ncclSuccess);
  }
  ~Waiting() {
    EXPECT_EQ(tuttiStreamDestroy(stream), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comms[1]), ncclSuccess);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  ncclComm_t comms[2] = {};
  tuttiStream_t stream = nullptr;
  int in = 1, out = 0;
};

TEST(Destroy, EndsCallsThatAreLate) {
  const Waiting waiting;
  EXPECT_EQ(ncclCommDestroy(waiting.comms[0]), ncclRemoteError);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("still under way"), std::string::npos)
      << ncclGetLastError(nullptr);
  EXPECT_NE(tuttiStreamSynchronize(waiting.stream), ncclSuccess);
}

TEST(Destroy, FollowsAFinalizeThatRunsInTheBackground) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  for (int repeat = 0; repeat < 50; ++repeat) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInProgress);
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
      ASSERT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
      std::this_thread::yield();
    }
    ASSERT_EQ(state, ncclSuccess) << ncclGetLastError(comm);
    EXPECT_EQ(ncclCommFinalize(comm), ncclInProgress);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }
}

TEST(Destroy, MayShareAGroupWithFinalize) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    ncclComm_t comms[2] = {};
    ASSERT_EQ(ncclCommInitAll(comms, 2, nullptr), ncclSuccess);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (ncclComm_t comm : comms) {
      EXPECT_EQ(ncclCommFinalize(comm), ncclSuccess);
      EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    }
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  }
}

TEST(Abort, IsAWayOutOfAGroupThatAnotherThreadCollects) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    ncclComm_t comms[2] = {};
    ASSERT_EQ(ncclCommInitAll(comms, 2, nullptr), ncclSuccess);
    int in = 1, out = 0;
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclAllReduce(&in, &out, 1, ncclInt, ncclSum, comms[0], nullptr), ncclSuccess);
    std::thread watchdog([&] { EXPECT_EQ(ncclCommAbort(comms[0]), ncclSuccess); });
    if (repeat % 2 == 1) watchdog.join();
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage) << ncclGetLastError(nullptr);
    if (watchdog.joinable()) watchdog.join();
    EXPECT_EQ(ncclCommAbort(comms[1]), ncclSuccess);
  }
}

// A thread that asks and one that calls may come at any moment of an abort.
TEST(Abort, MayComeWhileOtherThreadsUseTheCommunicator) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitAll(&comm, 1, nullptr), ncclSuccess);
    std::atomic<int> running{0};
    std::thread caller([&] {
      float in = 1, out = 0;
      ++running;
      while (ncclAllReduce(&in, &out, 1, ncclFloat, ncclSum, comm, nullptr) == ncclSuccess) {
      }
    });
    std::thread asker([&] {
      ncclResult_t state = ncclSuccess;
      ++running;
      while (ncclCommGetAsyncError(comm, &state) == ncclSuccess && ncclGetLastError(comm)) {
      }
    });
    while (running < 2) std::this_thread::yield();
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    caller.join();
    asker.join();
  }
}

TEST(Init, TakesATimeoutLongerThanTheClock) {
  for (const double timeout_s : {1e10, std::numeric_limits<double>::infinity()}) {
    ncclComm_t comm = nullptr;
    ASSERT_EQ(tuttiCommInitFromEnvironment(&comm, nullptr, timeout_s), ncclSuccess)
        << ncclGetLastError(nullptr);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }
}

TEST(Fork, ChildrenCannotEndWhatTheirParentHas) {
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitAll(&comm, 1, nullptr), ncclSuccess);
  tuttiStream_t stream = nullptr;
  ASSERT_EQ(tuttiStreamCreate(&stream), ncclSuccess);
  const pid_t child = fork();
  if (child == 0) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t answers[] = {ncclCommGetAsyncError(comm, &state), ncclCommDestroy(comm),
                                    ncclCommAbort(comm), tuttiStreamDestroy(stream)};
    for (const ncclResult_t answer : answers) {
      if (answer != ncclInvalidUsage) _exit(1);
    }
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(tuttiStreamDestroy(stream), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

/// No thread can be started while it lives: there is no address space for a stack.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&usual_);
    pthread_attr_t huge = usual_;
    pthread_attr_setstacksize(&huge, std::size_t{1} << 47U);
    pthread_setattr_default_np(&huge);
  }
  ~NoThreads() { pthread_setattr_default_np(&usual_); }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t usual_{};
};

TEST(Threads, WhenShortAreAnErrorThatLeavesNothingBehind) {
  ncclComm_t comms[2] = {};
  ASSERT_EQ(ncclCommInitAll(comms, 2, nullptr), ncclSuccess);
  tuttiStream_t stream = nullptr;
  ASSERT_EQ(tuttiStreamCreate(&stream), ncclSuccess);
  int in[2] = {1, 2}, out[2] = {};
  ncclComm_t none[2] = {};
  {
    const NoThreads none_left;
    EXPECT_EQ(ncclAllReduce(&in[0], &out[0], 1, ncclInt, ncclSum, comms[0],
                            reinterpret_cast<cudaStream_t>(stream)),
              ncclSystemError);
    EXPECT_EQ(ncclCommInitAll(none, 2, nullptr), ncclSystemError);
  }
  EXPECT_EQ(none[0], nullptr);
  EXPECT_EQ(none[1], nullptr);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(ncclAllReduce(&in[r], &out[r], 1, ncclInt, ncclSum, comms[r], nullptr), ncclSuccess);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  EXPECT_EQ(out[1], 3);
  EXPECT_EQ(tuttiStreamDestroy(stream), ncclSuccess);
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

}  // namespace
