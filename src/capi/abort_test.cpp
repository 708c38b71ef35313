// Ends and aborts of communicators that others still have plans for, on fake members.
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/capi/fake_member.hpp"
#include "tutti/tutti.h"

namespace tutti::capi {
namespace {

using testing::HasSubstr;

float a_values[8];
float b_values[8];

ncclResult_t all_reduce(ncclComm* on, cudaStream_t stream = nullptr) {
  return tuttiNcclAllReduce(a_values, b_values, 1, ncclFloat, ncclSum, on, stream);
}

void abort_elsewhere(ncclComm* comm) {
  std::thread([comm] { EXPECT_EQ(tuttiNcclCommAbort(comm), ncclSuccess); }).join();
}

ncclResult_t settled(ncclComm* comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    EXPECT_EQ(tuttiNcclCommGetAsyncError(comm, &state), ncclSuccess);
    std::this_thread::yield();
  }
  return state;
}

/// A stream whose first call, on a communicator of its own, does not end before end().
class BusyStream {
 public:
  BusyStream() {
    EXPECT_EQ(tuttiStreamCreate(&stream_), ncclSuccess);
    on_.fake->open = false;
    EXPECT_EQ(all_reduce(on_.handle, native()), ncclSuccess);
    while (on_.fake->polls == 0) std::this_thread::yield();
  }
  ~BusyStream() {
    (void)end();
    EXPECT_EQ(tuttiStreamDestroy(stream_), ncclSuccess);
  }
  BusyStream(const BusyStream&) = delete;
  BusyStream& operator=(const BusyStream&) = delete;

  [[nodiscard]] cudaStream_t native() const { return reinterpret_cast<cudaStream_t>(stream_); }
  /// The outcome of all calls.
  ncclResult_t end() {
    on_.fake->open = true;
    return tuttiStreamSynchronize(stream_);
  }

 private:
  FakeHandle on_;
  tuttiStream_t stream_ = nullptr;
};

TEST(AbortInAGroup, OfACommunicatorThatHasCallsInItEndsTheGroupWithAnError) {
  const FakeHandle on;
  const FakeHandle bystander;
  ASSERT_EQ(tuttiNcclGroupStart(), ncclSuccess);
  EXPECT_EQ(all_reduce(on.handle), ncclSuccess);
  EXPECT_EQ(all_reduce(bystander.handle), ncclSuccess);
  abort_elsewhere(on.handle);
  EXPECT_EQ(tuttiNcclGroupEnd(), ncclInvalidUsage);
  EXPECT_THAT(tuttiNcclGetLastError(nullptr), HasSubstr("another thread aborted"));
  EXPECT_TRUE(bystander.fake->calls().empty());
  EXPECT_EQ(all_reduce(bystander.handle), ncclSuccess) << "no turn is left behind";
}

TEST(AbortInAGroup, KeepsItsCallsFromTheNextCommunicatorOfTheSameHandle) {
  const FakeHandle on;
  ASSERT_EQ(tuttiNcclGroupStart(), ncclSuccess);
  EXPECT_EQ(all_reduce(on.handle), ncclSuccess);
  EXPECT_EQ(tuttiNcclCommDestroy(on.handle), ncclSuccess);
  abort_elsewhere(on.handle);
  const FakeHandle next;
  ASSERT_EQ(next.handle, on.handle);
  EXPECT_EQ(tuttiNcclGroupEnd(), ncclInvalidUsage);
  EXPECT_TRUE(next.fake->calls().empty());
  EXPECT_EQ(all_reduce(next.handle), ncclSuccess) << "nor is it destroyed";
}

TEST(AbortInAGroup, OfAParentEndsTheSplitThatWaitsForTheGroupsEnd) {
  const FakeHandle parent;
  ncclComm_t child = nullptr;
  ASSERT_EQ(tuttiNcclGroupStart(), ncclSuccess);
  EXPECT_EQ(tuttiNcclCommSplit(parent.handle, 0, 0, &child, nullptr), ncclSuccess);
  abort_elsewhere(parent.handle);
  EXPECT_EQ(tuttiNcclGroupEnd(), ncclInvalidUsage);
  EXPECT_EQ(child, nullptr);
}

TEST(AbortInAGroup, OfAChildThatIsNotMadeYetIsFoundOutAtItsEnd) {
  const FakeHandle parent;
  ncclComm_t child = nullptr;
  ASSERT_EQ(tuttiNcclGroupStart(), ncclSuccess);
  EXPECT_EQ(tuttiNcclCommSplit(parent.handle, 0, 0, &child, nullptr), ncclSuccess);
  abort_elsewhere(child);
  EXPECT_EQ(tuttiNcclGroupEnd(), ncclInvalidUsage);
  EXPECT_EQ(all_reduce(parent.handle), ncclSuccess);
}

TEST(GroupEnd, FinalizesBeforeItDestroys) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    const FakeHandle on;
    ASSERT_EQ(tuttiNcclGroupStart(), ncclSuccess);
    EXPECT_EQ(all_reduce(on.handle), ncclSuccess);
    EXPECT_EQ(tuttiNcclCommFinalize(on.handle), ncclSuccess);
    EXPECT_EQ(tuttiNcclCommDestroy(on.handle), ncclSuccess);
    EXPECT_EQ(tuttiNcclGroupEnd(), ncclSuccess) << tuttiNcclGetLastError(nullptr);
  }
}

TEST(GroupEnd, DestroysTheParentOfASplitThatAnErrorKeptFromRunning) {
  const FakeHandle parent;
  ncclComm_t child = nullptr;
  ASSERT_EQ(tuttiNcclGroupStart(), ncclSuccess);
  EXPECT_EQ(tuttiNcclCommSplit(parent.handle, 0, 0, &child, nullptr), ncclSuccess);
  EXPECT_EQ(tuttiNcclCommUserRank(parent.handle, nullptr), ncclInvalidArgument);
  EXPECT_EQ(tuttiNcclCommDestroy(parent.handle), ncclSuccess);
  EXPECT_EQ(tuttiNcclGroupEnd(), ncclInvalidArgument);
  EXPECT_EQ(child, nullptr);
  EXPECT_EQ(all_reduce(parent.handle), ncclInvalidArgument) << "it is destroyed";
}

TEST(Abort, DoesNotWaitForAnotherCommunicatorsCallOnTheSameStream) {
  BusyStream stream;
  const FakeHandle on;
  EXPECT_EQ(all_reduce(on.handle, stream.native()), ncclSuccess);
  EXPECT_EQ(tuttiNcclCommAbort(on.handle), ncclSuccess);
  const FakeHandle next;
  ASSERT_EQ(next.handle, on.handle);
  EXPECT_EQ(all_reduce(next.handle), ncclSuccess);
  EXPECT_EQ(stream.end(), ncclInvalidUsage);
  EXPECT_EQ(next.fake->calls().size(), 1U);
}

TEST(Abort, EndsACallThatWaitsBehindAnotherCommunicatorsCall) {
  BusyStream stream;
  const FakeHandle on;
  EXPECT_EQ(all_reduce(on.handle, stream.native()), ncclSuccess);
  std::thread caller([&] { EXPECT_NE(all_reduce(on.handle), ncclSuccess); });
  std::this_thread::yield();  // the call waits by then, or comes too late
  EXPECT_EQ(tuttiNcclCommAbort(on.handle), ncclSuccess);
  caller.join();
}

TEST(Abort, EndsAGroupInTheBackgroundThatWaitsForAnotherCommunicator) {
  BusyStream stream;
  const FakeHandle waits(0, 2, false);
  const FakeHandle blocked(0, 2, false);
  EXPECT_EQ(all_reduce(blocked.handle, stream.native()), ncclSuccess);
  ASSERT_EQ(tuttiNcclGroupStart(), ncclSuccess);
  EXPECT_EQ(all_reduce(waits.handle), ncclSuccess);
  EXPECT_EQ(all_reduce(blocked.handle), ncclSuccess);
  EXPECT_EQ(tuttiNcclGroupEnd(), ncclInProgress);
  EXPECT_EQ(tuttiNcclCommAbort(waits.handle), ncclSuccess);
  EXPECT_EQ(settled(blocked.handle), ncclInvalidUsage);
  EXPECT_EQ(stream.end(), ncclSuccess);
}

/// A child, not there yet: its split waits for the parent's call on `stream`, which waits for
/// parent.fake->open.
ncclComm_t split_behind_a_call(const FakeHandle& parent, tuttiStream_t stream) {
  parent.fake->open = false;
  EXPECT_EQ(all_reduce(parent.handle, reinterpret_cast<cudaStream_t>(stream)), ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t child = nullptr;
  EXPECT_EQ(tuttiNcclCommSplit(parent.handle, 0, 0, &child, &config), ncclInProgress);
  return child;
}

TEST(Abort, OfAChildDoesNotWaitForTheParentsTurn) {
  const FakeHandle parent;
  tuttiStream_t stream = nullptr;
  ASSERT_EQ(tuttiStreamCreate(&stream), ncclSuccess);
  const ncclComm_t child = split_behind_a_call(parent, stream);
  EXPECT_EQ(tuttiNcclCommAbort(child), ncclSuccess);
  parent.fake->open = true;
  EXPECT_EQ(tuttiStreamSynchronize(stream), ncclSuccess);
  EXPECT_EQ(tuttiStreamDestroy(stream), ncclSuccess);
  EXPECT_EQ(all_reduce(parent.handle), ncclSuccess);
}

TEST(Splits, HaveTheirTimeFromWhenTheirTurnCame) {
  const FakeHandle parent;
  tuttiStream_t stream = nullptr;
  ASSERT_EQ(tuttiStreamCreate(&stream), ncclSuccess);
  const ncclComm_t child = split_behind_a_call(parent, stream);
  while (parent.fake->polls == 0) std::this_thread::yield();
  const TimePoint opened = Clock::now();
  parent.fake->open = true;
  EXPECT_EQ(settled(child), ncclSuccess);
  const double limit = (*process().runtime())->settings.seconds("INIT_TIMEOUT");
  EXPECT_GE(parent.fake->split_deadline.load() - opened, std::chrono::duration<double>(limit));
  EXPECT_EQ(tuttiNcclCommDestroy(child), ncclSuccess);
  EXPECT_EQ(tuttiStreamDestroy(stream), ncclSuccess);
}

TEST(Background, CallsThatHangCanBeRevoked) {
  const FakeHandle on(0, 2, false);
  on.fake->open = false;
  EXPECT_EQ(all_reduce(on.handle), ncclInProgress);
  EXPECT_EQ(tuttiNcclCommRevoke(on.handle, NCCL_REVOKE_DEFAULT), ncclSuccess);
  EXPECT_EQ(settled(on.handle), ncclInvalidUsage);
}

TEST(Background, CallsThatHangDoNotKeepOneFromShrinking) {
  const FakeHandle on(0, 2, false);
  on.fake->open = false;
  EXPECT_EQ(all_reduce(on.handle), ncclInProgress);
  int excluded = 1;
  ncclComm_t rest = nullptr;
  EXPECT_EQ(tuttiNcclCommShrink(on.handle, &excluded, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT),
            ncclInvalidArgument);
  EXPECT_EQ(tuttiNcclCommShrink(on.handle, &excluded, 1, &rest, nullptr, NCCL_SHRINK_ABORT),
            ncclInProgress);
  EXPECT_EQ(settled(rest), ncclSuccess);
  EXPECT_EQ(tuttiNcclCommDestroy(rest), ncclSuccess);
}

TEST(Background, CallsDoNotKeepTheirOperator) {
  const FakeHandle on(0, 2, false);
  on.fake->open = false;
  float scalar = 2;
  ncclRedOp_t twice = ncclSum;
  EXPECT_EQ(
      tuttiNcclRedOpCreatePreMulSum(&twice, &scalar, ncclFloat, ncclScalarHostImmediate, on.handle),
      ncclSuccess);
  EXPECT_EQ(tuttiNcclAllReduce(a_values, b_values, 1, ncclFloat, twice, on.handle, nullptr),
            ncclInProgress);
  EXPECT_EQ(tuttiNcclRedOpDestroy(twice, on.handle), ncclSuccess);
  on.fake->open = true;
  EXPECT_EQ(settled(on.handle), ncclSuccess);
}

TEST(LogLines, NameTheCommunicatorAndTheRank) {
  const FakeHandle on(1, 3);
  testing::internal::CaptureStderr();
  EXPECT_EQ(tuttiNcclBroadcast(a_values, b_values, 1, ncclFloat, 7, on.handle, nullptr),
            ncclInvalidArgument);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("[fake 1/3] ncclBroadcast: root"));
}

TEST(Groups, WhoseOnlyCommunicatorWasAbortedDoNotWaitForTheTurnOfTheNextOneWithItsHandle) {
  auto first = std::make_unique<FakeHandle>();
  ncclComm* const handle = first->handle;
  EXPECT_EQ(tuttiNcclGroupStart(), ncclSuccess);
  EXPECT_EQ(all_reduce(handle), ncclSuccess);
  abort_elsewhere(handle);
  const FakeHandle next;
  ASSERT_EQ(next.handle, handle);
  const Turn of_next(handle->turns);  // as its init would hold it
  EXPECT_EQ(tuttiNcclGroupEnd(), ncclInvalidUsage);
  EXPECT_TRUE(next.fake->calls().empty());
}

}  // namespace
}  // namespace tutti::capi
