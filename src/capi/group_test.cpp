// Groups, streams, background calls and handles, on fake members.
#include "src/capi/group.hpp"

#include <cstring>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/capi/fake_member.hpp"
#include "tutti/tutti.h"

namespace tutti::capi {
namespace {

using testing::HasSubstr;

float a[8];
float b[8];

ncclResult_t all_reduce(const FakeHandle& on, cudaStream_t stream = nullptr) {
  return tuttiNcclAllReduce(a, b, 1, ncclFloat, ncclSum, on.handle, stream);
}

ncclResult_t async_error(const FakeHandle& on) {
  ncclResult_t state = ncclNumResults;
  EXPECT_EQ(tuttiNcclCommGetAsyncError(on.handle, &state), ncclSuccess);
  return state;
}

cudaStream_t as_cuda(tuttiStream_t stream) { return reinterpret_cast<cudaStream_t>(stream); }

TEST(Calls, RunAtOnceOutsideAGroup) {
  const FakeHandle on;
  EXPECT_EQ(all_reduce(on), ncclSuccess);
  ASSERT_EQ(on.fake->calls().size(), 1U);
  EXPECT_EQ(on.fake->calls()[0].collective, Collective::kAllReduce);
}

TEST(Calls, AreLookedAtAgainWhenWhatTheyMeanMayHaveChanged) {
  const FakeHandle on;
  ncclRedOp_t scaled = ncclSum;
  float factor = 2;
  ASSERT_EQ(tuttiNcclRedOpCreatePreMulSum(&scaled, &factor, ncclFloat, ncclScalarDevice, on.handle),
            ncclSuccess);
  const auto scaled_sum = [&] {
    return tuttiNcclAllReduce(a, b, 1, ncclFloat, scaled, on.handle, nullptr);
  };
  EXPECT_EQ(scaled_sum(), ncclSuccess);
  factor = 3;
  EXPECT_EQ(scaled_sum(), ncclSuccess);
  const std::vector<Call> calls = on.fake->calls();
  ASSERT_EQ(calls.size(), 2U);
  float seen[2] = {};
  for (int i = 0; i < 2; ++i) std::memcpy(&seen[i], calls[i].scalar, sizeof seen[i]);
  EXPECT_EQ(seen[0], 2);
  EXPECT_EQ(seen[1], 3);
  EXPECT_EQ(tuttiNcclRedOpDestroy(scaled, on.handle), ncclSuccess);
  EXPECT_EQ(scaled_sum(), ncclInvalidArgument);

  EXPECT_EQ(all_reduce(on), ncclSuccess);
  EXPECT_EQ(all_reduce(on), ncclSuccess);
  EXPECT_EQ(tuttiNcclAllReduce(a, nullptr, 1, ncclFloat, ncclSum, on.handle, nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(all_reduce(on), ncclSuccess);
  EXPECT_EQ(tuttiNcclCommRevoke(on.handle, NCCL_REVOKE_DEFAULT), ncclSuccess);
  EXPECT_EQ(all_reduce(on), ncclInvalidUsage);
}

TEST(Calls, LeaveTheTextOfTheirErrorOnTheCommunicatorAndOnTheThread) {
  const FakeHandle on;
  const FakeHandle other;
  EXPECT_EQ(tuttiNcclBroadcast(a, b, 1, ncclFloat, 7, on.handle, nullptr), ncclInvalidArgument);
  EXPECT_THAT(tuttiNcclGetLastError(on.handle), HasSubstr("ncclBroadcast: root 7"));
  EXPECT_THAT(tuttiNcclGetLastError(nullptr), HasSubstr("ncclBroadcast: root 7"));
  EXPECT_STREQ(tuttiNcclGetLastError(other.handle), "");
}

TEST(Calls, MapEveryKindOfErrorToItsNcclCode) {
  const FakeHandle on;
  const std::pair<Code, ncclResult_t> kinds[] = {{Code::kInvalidArgument, ncclInvalidArgument},
                                                 {Code::kInvalidUsage, ncclInvalidUsage},
                                                 {Code::kUnsupported, ncclInvalidUsage},
                                                 {Code::kUnavailable, ncclSystemError},
                                                 {Code::kPeerFailed, ncclRemoteError},
                                                 {Code::kTimeout, ncclRemoteError},
                                                 {Code::kAborted, ncclInvalidUsage},
                                                 {Code::kWrongData, ncclInvalidArgument},
                                                 {Code::kDevice, ncclUnhandledCudaError},
                                                 {Code::kInternal, ncclInternalError}};
  for (const auto& [code, result] : kinds) {
    on.fake->refuse_next(make_error(code, "told to"));
    EXPECT_EQ(all_reduce(on), result) << name_of(code);
  }
}

TEST(Handles, AreFoundOutWhenNullOrStale) {
  ncclComm* stale = nullptr;
  {
    const FakeHandle on;
    stale = on.handle;
  }
  EXPECT_EQ(tuttiNcclAllReduce(a, b, 1, ncclFloat, ncclSum, stale, nullptr), ncclInvalidArgument);
  EXPECT_THAT(tuttiNcclGetLastError(nullptr), HasSubstr("not a live communicator"));
  EXPECT_EQ(tuttiNcclAllReduce(a, b, 1, ncclFloat, ncclSum, nullptr, nullptr), ncclInvalidArgument);
  EXPECT_EQ(tuttiNcclCommDestroy(stale), ncclInvalidArgument);
  EXPECT_EQ(tuttiNcclCommDestroy(nullptr), ncclSuccess);
}

TEST(Handles, AreRevokedOnceAndThenRefuseCalls) {
  const FakeHandle on;
  EXPECT_EQ(tuttiNcclCommRevoke(on.handle, 3), ncclInvalidArgument);
  EXPECT_EQ(tuttiNcclCommRevoke(on.handle, NCCL_REVOKE_DEFAULT), ncclSuccess);
  EXPECT_EQ(all_reduce(on), ncclInvalidUsage);
  EXPECT_EQ(tuttiNcclCommRevoke(on.handle, NCCL_REVOKE_DEFAULT), ncclInvalidArgument);
  EXPECT_EQ(tuttiNcclCommFinalize(on.handle), ncclInvalidArgument);
  int count = 0;
  EXPECT_EQ(tuttiNcclCommCount(on.handle, &count), ncclSuccess);
  EXPECT_EQ(count, 2);
}

TEST(Handles, AnswerGettersAndSayMinusOneForTheGpuTheyDoNotHave) {
  const FakeHandle on(1, 3);
  int value = 0;
  EXPECT_EQ(tuttiNcclCommUserRank(on.handle, &value), ncclSuccess);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(tuttiNcclCommCuDevice(on.handle, &value), ncclSuccess);
  EXPECT_EQ(value, -1);
  EXPECT_EQ(tuttiNcclCommCount(on.handle, nullptr), ncclInvalidArgument);
  EXPECT_EQ(tuttiCommFailedRank(on.handle, &value), ncclSuccess);
  EXPECT_EQ(value, -1);
  char names[6];
  EXPECT_EQ(tuttiCommTransports(on.handle, names, sizeof names), ncclSuccess);
  EXPECT_STREQ(names, "shm,t");
}

TEST(Handles, NameTheRankThatFailed) {
  const FakeHandle on;
  on.fake->abort(peer_error(Code::kPeerFailed, 1, "rank 1 died"));
  int rank = 0;
  EXPECT_EQ(tuttiCommFailedRank(on.handle, &rank), ncclSuccess);
  EXPECT_EQ(rank, 1);
  EXPECT_EQ(async_error(on), ncclRemoteError);
  EXPECT_THAT(tuttiNcclGetLastError(on.handle), HasSubstr("rank 1 died"));
}

TEST(Handles, KeepRegistrationsCountedAndKnowTheirOwn) {
  const FakeHandle on;
  void* first = nullptr;
  void* again = nullptr;
  EXPECT_EQ(tuttiNcclCommRegister(on.handle, a, sizeof a, &first), ncclSuccess);
  EXPECT_EQ(tuttiNcclCommRegister(on.handle, a, sizeof a, &again), ncclSuccess);
  EXPECT_EQ(first, again);
  EXPECT_EQ(tuttiNcclCommDeregister(on.handle, first), ncclSuccess);
  EXPECT_EQ(tuttiNcclCommDeregister(on.handle, first), ncclSuccess);
  EXPECT_EQ(tuttiNcclCommDeregister(on.handle, first), ncclInvalidArgument);
  ncclWindow_t window = nullptr;
  EXPECT_EQ(tuttiNcclCommWindowRegister(on.handle, a, sizeof a, &window, NCCL_WIN_DEFAULT),
            ncclSuccess);
  EXPECT_NE(window, nullptr);
  EXPECT_EQ(tuttiNcclCommWindowDeregister(on.handle, window), ncclSuccess);
  EXPECT_EQ(tuttiNcclCommWindowDeregister(on.handle, window), ncclInvalidArgument);
}

TEST(Groups, RunWhenTheOutermostEnds) {
  const FakeHandle one(0);
  const FakeHandle two(1);
  EXPECT_EQ(tuttiNcclGroupStart(), ncclSuccess);
  EXPECT_EQ(tuttiNcclGroupStart(), ncclSuccess);
  EXPECT_EQ(all_reduce(one), ncclSuccess);
  EXPECT_EQ(all_reduce(two), ncclSuccess);
  EXPECT_EQ(tuttiNcclSend(a, 1, ncclFloat, 1, one.handle, nullptr), ncclSuccess);
  EXPECT_EQ(tuttiNcclGroupEnd(), ncclSuccess);
  EXPECT_TRUE(one.fake->calls().empty());
  EXPECT_EQ(tuttiNcclGroupEnd(), ncclSuccess);
  EXPECT_EQ(one.fake->calls().size(), 2U);
  EXPECT_EQ(two.fake->calls().size(), 1U);
}

TEST(Groups, OfOneCallTellItsErrorsAsTheyEnd) {
  const FakeHandle on;
  EXPECT_EQ(tuttiNcclGroupStart(), ncclSuccess);
  EXPECT_EQ(all_reduce(on), ncclSuccess);
  EXPECT_TRUE(on.fake->calls().empty());
  EXPECT_EQ(tuttiNcclGroupEnd(), ncclSuccess);
  EXPECT_EQ(on.fake->calls().size(), 1U);
  EXPECT_EQ(tuttiNcclGroupStart(), ncclSuccess);
  EXPECT_EQ(all_reduce(on), ncclSuccess);
  on.fake->refuse_next(make_error(Code::kPeerFailed, "rank 1 hung up"));
  EXPECT_EQ(tuttiNcclGroupEnd(), ncclRemoteError);
  EXPECT_THAT(tuttiNcclGetLastError(on.handle), HasSubstr("ncclGroupEnd: rank 1 hung up"));
}

TEST(Groups, ReturnTheFirstErrorInsideAgainAndRunNothing) {
  const FakeHandle on;
  EXPECT_EQ(tuttiNcclGroupStart(), ncclSuccess);
  EXPECT_EQ(all_reduce(on), ncclSuccess);
  EXPECT_EQ(tuttiNcclSend(a, 1, ncclFloat, 9, on.handle, nullptr), ncclInvalidArgument);
  EXPECT_EQ(tuttiNcclGroupEnd(), ncclInvalidArgument);
  EXPECT_THAT(tuttiNcclGetLastError(nullptr), HasSubstr("peer 9"));
  EXPECT_TRUE(on.fake->calls().empty());
  EXPECT_EQ(all_reduce(on), ncclSuccess) << "the group's error ended with it";
}

TEST(Groups, CannotEndUnopened) {
  EXPECT_EQ(tuttiNcclGroupEnd(), ncclInvalidUsage);
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  EXPECT_EQ(tuttiNcclGroupSimulateEnd(&info), ncclInvalidUsage);
}

TEST(Groups, SimulatedEndDropsTheWorkAndTellsTheTimeOfTheSlowestCommunicator) {
  const FakeHandle on;
  const FakeHandle busier;
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  EXPECT_EQ(tuttiNcclGroupStart(), ncclSuccess);
  EXPECT_EQ(all_reduce(on), ncclSuccess);
  EXPECT_EQ(tuttiNcclGroupStart(), ncclSuccess);
  EXPECT_EQ(all_reduce(busier), ncclSuccess);
  EXPECT_EQ(tuttiNcclGroupSimulateEnd(&info), ncclSuccess);
  EXPECT_EQ(info.estimatedTime, NCCL_UNDEF_FLOAT) << "an inner end tells nothing";
  EXPECT_EQ(all_reduce(busier), ncclSuccess);
  EXPECT_EQ(tuttiNcclGroupSimulateEnd(&info), ncclSuccess);
  EXPECT_EQ(info.estimatedTime, 2) << "the fake takes a microsecond an element";
  EXPECT_TRUE(on.fake->calls().empty());
  EXPECT_TRUE(busier.fake->calls().empty());
  EXPECT_EQ(tuttiNcclGroupEnd(), ncclInvalidUsage) << "the group is over";
}

TEST(Groups, SimulatedEndTellsTheErrorOfTheGroup) {
  const FakeHandle on;
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  EXPECT_EQ(tuttiNcclGroupStart(), ncclSuccess);
  EXPECT_EQ(tuttiNcclSend(nullptr, 1, ncclFloat, 9, on.handle, nullptr), ncclInvalidArgument);
  EXPECT_EQ(tuttiNcclGroupSimulateEnd(&info), ncclInvalidArgument);
  EXPECT_EQ(info.estimatedTime, NCCL_UNDEF_FLOAT);
}

TEST(Groups, BelongToTheirThread) {
  const FakeHandle on;
  EXPECT_EQ(tuttiNcclGroupStart(), ncclSuccess);
  std::thread([&] { EXPECT_EQ(all_reduce(on), ncclSuccess); }).join();
  EXPECT_EQ(on.fake->calls().size(), 1U);
  EXPECT_EQ(tuttiNcclGroupEnd(), ncclSuccess);
}

TEST(Groups, RefuseToMixBlockingAndOtherCommunicators) {
  const FakeHandle blocking;
  const FakeHandle other(0, 2, false);
  EXPECT_EQ(tuttiNcclGroupStart(), ncclSuccess);
  EXPECT_EQ(all_reduce(blocking), ncclSuccess);
  EXPECT_EQ(all_reduce(other), ncclSuccess);
  EXPECT_EQ(tuttiNcclGroupEnd(), ncclInvalidArgument);
}

TEST(Groups, EndTheOthersWhenOneCommunicatorRefuses) {
  const FakeHandle started(0);
  const FakeHandle refusing(1);
  refusing.fake->refuse_next(make_error(Code::kUnavailable, "out of luck"));
  EXPECT_EQ(tuttiNcclGroupStart(), ncclSuccess);
  EXPECT_EQ(all_reduce(started), ncclSuccess);
  EXPECT_EQ(all_reduce(refusing), ncclSuccess);
  EXPECT_EQ(tuttiNcclGroupEnd(), ncclSystemError);
  EXPECT_FALSE(started.fake->health());
}

TEST(Groups, WhoseMessagesToOneselfDoNotPairAreRefusedAndEndNoCommunicator) {
  const FakeHandle bystander(0);
  const FakeHandle on(1);
  EXPECT_EQ(tuttiNcclGroupStart(), ncclSuccess);
  EXPECT_EQ(all_reduce(bystander), ncclSuccess);
  EXPECT_EQ(tuttiNcclSend(a, 1, ncclFloat, 1, on.handle, nullptr), ncclSuccess);
  EXPECT_EQ(tuttiNcclSend(a, 1, ncclFloat, 1, on.handle, nullptr), ncclSuccess);
  EXPECT_EQ(tuttiNcclRecv(b, 1, ncclFloat, 1, on.handle, nullptr), ncclSuccess);
  EXPECT_EQ(tuttiNcclGroupEnd(), ncclInvalidUsage);
  EXPECT_THAT(tuttiNcclGetLastError(nullptr), HasSubstr("2 sends to itself and 1 receives"));
  for (const FakeHandle* each : {&bystander, &on}) {
    EXPECT_TRUE(each->fake->calls().empty());
    EXPECT_EQ(async_error(*each), ncclSuccess);
  }
}

TEST(Background, MessagesToOneselfThatDoNotPairAreRefusedAtOnce) {
  const FakeHandle on(1, 2, false);
  EXPECT_EQ(tuttiNcclSend(a, 1, ncclFloat, 1, on.handle, nullptr), ncclInvalidUsage);
  EXPECT_EQ(async_error(on), ncclSuccess);
  EXPECT_TRUE(on.fake->calls().empty());
}

TEST(Background, CallsReturnInProgressAndAreAskedFor) {
  const FakeHandle on(0, 2, false);
  on.fake->open = false;
  EXPECT_EQ(all_reduce(on), ncclInProgress);
  EXPECT_EQ(async_error(on), ncclInProgress);
  EXPECT_EQ(all_reduce(on), ncclInvalidArgument);
  EXPECT_THAT(tuttiNcclGetLastError(on.handle), HasSubstr("in progress"));
  on.fake->open = true;
  while (async_error(on) == ncclInProgress) std::this_thread::yield();
  EXPECT_EQ(async_error(on), ncclSuccess);
  EXPECT_EQ(on.fake->calls().size(), 1U);
}

TEST(Background, FailuresStayOnTheCommunicator) {
  const FakeHandle on(0, 2, false);
  on.fake->refuse_next(make_error(Code::kPeerFailed, "rank 1 hung up"));
  EXPECT_EQ(all_reduce(on), ncclInProgress);
  while (async_error(on) == ncclInProgress) std::this_thread::yield();
  EXPECT_EQ(async_error(on), ncclRemoteError);
  EXPECT_THAT(tuttiNcclGetLastError(on.handle), HasSubstr("rank 1 hung up"));
}

TEST(Streams, RunCallsInOrderBesideTheCaller) {
  const FakeHandle on;
  tuttiStream_t stream = nullptr;
  ASSERT_EQ(tuttiStreamCreate(&stream), ncclSuccess);
  on.fake->open = false;
  EXPECT_EQ(all_reduce(on, as_cuda(stream)), ncclSuccess);
  EXPECT_EQ(tuttiNcclAllGather(a, b, 1, ncclFloat, on.handle, as_cuda(stream)), ncclSuccess);
  EXPECT_EQ(tuttiStreamQuery(stream), ncclInProgress);
  on.fake->open = true;
  EXPECT_EQ(tuttiStreamSynchronize(stream), ncclSuccess);
  ASSERT_EQ(on.fake->calls().size(), 2U);
  EXPECT_EQ(on.fake->calls()[1].collective, Collective::kAllGather);
  EXPECT_EQ(tuttiStreamDestroy(stream), ncclSuccess);
  EXPECT_EQ(tuttiStreamSynchronize(stream), ncclInvalidArgument);
}

TEST(Streams, KnowThatTheirCallerIsBusyUntilItWaitsForThem) {
  const FakeHandle on;
  tuttiStream_t stream = nullptr;
  ASSERT_EQ(tuttiStreamCreate(&stream), ncclSuccess);
  on.fake->open = false;
  EXPECT_EQ(all_reduce(on, as_cuda(stream)), ncclSuccess);
  while (on.fake->caller_activity != CallerActivity::kComputes) std::this_thread::yield();
  std::thread waiter([stream] { EXPECT_EQ(tuttiStreamSynchronize(stream), ncclSuccess); });
  while (on.fake->caller_activity != CallerActivity::kWaits) std::this_thread::yield();
  on.fake->open = true;
  waiter.join();
  EXPECT_EQ(tuttiStreamDestroy(stream), ncclSuccess);
}

TEST(Streams, KeepOneCommunicatorsCallsInTheOrderTheyWereMade) {
  const FakeHandle on;
  tuttiStream_t first = nullptr;
  tuttiStream_t second = nullptr;
  ASSERT_EQ(tuttiStreamCreate(&first), ncclSuccess);
  ASSERT_EQ(tuttiStreamCreate(&second), ncclSuccess);
  for (std::size_t i = 0; i < 64; ++i) {
    tuttiStream_t stream = i % 2 == 0 ? first : second;
    ASSERT_EQ(tuttiNcclAllReduce(a, b, i + 1, ncclInt8, ncclSum, on.handle,
                                 i % 5 == 0 ? nullptr : as_cuda(stream)),
              ncclSuccess);
  }
  EXPECT_EQ(tuttiStreamSynchronize(first), ncclSuccess);
  EXPECT_EQ(tuttiStreamSynchronize(second), ncclSuccess);
  const auto calls = on.fake->calls();
  ASSERT_EQ(calls.size(), 64U);
  for (std::size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(calls[i].count, i + 1);
  EXPECT_EQ(tuttiStreamDestroy(first), ncclSuccess);
  EXPECT_EQ(tuttiStreamDestroy(second), ncclSuccess);
}

TEST(Streams, OfAGroupAllWaitForItsCalls) {
  const FakeHandle one(0);
  const FakeHandle two(1);
  tuttiStream_t streams[2] = {};
  for (tuttiStream_t& stream : streams) ASSERT_EQ(tuttiStreamCreate(&stream), ncclSuccess);
  one.fake->open = false;
  EXPECT_EQ(tuttiNcclGroupStart(), ncclSuccess);
  EXPECT_EQ(all_reduce(one, as_cuda(streams[0])), ncclSuccess);
  EXPECT_EQ(all_reduce(two, as_cuda(streams[1])), ncclSuccess);
  EXPECT_EQ(tuttiNcclGroupEnd(), ncclSuccess);
  EXPECT_EQ(tuttiStreamQuery(streams[0]), ncclInProgress);
  EXPECT_EQ(tuttiStreamQuery(streams[1]), ncclInProgress);
  one.fake->open = true;
  for (tuttiStream_t stream : streams) {
    EXPECT_EQ(tuttiStreamSynchronize(stream), ncclSuccess);
    EXPECT_EQ(tuttiStreamDestroy(stream), ncclSuccess);
  }
  EXPECT_EQ(two.fake->calls().size(), 1U);
}

TEST(Streams, KeepTheFirstFailureOfTheirCalls) {
  const FakeHandle on;
  tuttiStream_t stream = nullptr;
  ASSERT_EQ(tuttiStreamCreate(&stream), ncclSuccess);
  on.fake->refuse_next(make_error(Code::kPeerFailed, "rank 1 hung up"));
  EXPECT_EQ(all_reduce(on, as_cuda(stream)), ncclSuccess);
  EXPECT_EQ(tuttiStreamSynchronize(stream), ncclRemoteError);
  EXPECT_THAT(tuttiNcclGetLastError(on.handle), HasSubstr("rank 1 hung up"));
  EXPECT_EQ(tuttiStreamQuery(stream), ncclRemoteError);
  EXPECT_EQ(tuttiStreamDestroy(stream), ncclSuccess);
}

TEST(Streams, OfOthersAreRefusedWithTheRemedy) {
  const FakeHandle on;
  int somewhere = 0;
  EXPECT_EQ(all_reduce(on, reinterpret_cast<cudaStream_t>(&somewhere)), ncclInvalidArgument);
  EXPECT_THAT(tuttiNcclGetLastError(on.handle), HasSubstr("tuttiStreamCreate"));
  EXPECT_TRUE(on.fake->calls().empty());
}

TEST(Abort, FromAnotherThreadEndsACallThatHangs) {
  const FakeHandle on;
  on.fake->open = false;
  std::thread caller([&] { EXPECT_EQ(all_reduce(on), ncclInvalidUsage); });
  while (on.fake->polls == 0) std::this_thread::yield();
  EXPECT_EQ(tuttiNcclCommAbort(on.handle), ncclSuccess);
  caller.join();
  EXPECT_EQ(all_reduce(on), ncclInvalidArgument) << "the handle is stale";
}

TEST(Absent, FunctionsReportAnErrorThatSaysSo) {
  EXPECT_EQ(tuttiNcclCommSuspend(nullptr, 1), ncclInvalidUsage);
  EXPECT_THAT(tuttiNcclGetLastError(nullptr), HasSubstr("ncclCommSuspend: this is a function of "
                                                        "NCCL 2.29"));
  EXPECT_EQ(tuttiNcclSetEncryption(nullptr), ncclInvalidUsage);
  EXPECT_THAT(tuttiNcclGetLastError(nullptr), HasSubstr("NCCL 2.32"));
  EXPECT_EQ(tuttiNcclTeamCft(nullptr, NCCL_CFT_TEAM_FLAT).nRanks, 0);
  EXPECT_EQ(tuttiNcclTeamWorld(nullptr).nRanks, 0);
  EXPECT_THAT(tuttiNcclGetLastError(nullptr), HasSubstr("device API"));
}

}  // namespace
}  // namespace tutti::capi
