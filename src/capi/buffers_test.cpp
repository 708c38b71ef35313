#include "src/capi/buffers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/capi/fake_member.hpp"
#include "tutti/tutti.h"

namespace tutti::capi {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Rank kRank = 1;
constexpr std::int32_t kSize = 4;
constexpr std::size_t kCount = 0x100;  // 0x400 bytes a block

// One writable mapping, one read-only after it, and nothing beyond.
class Buffers : public testing::Test {
 protected:
  static Status check(Collective collective, std::uintptr_t send, std::uintptr_t recv,
                      Rank root = kRank) {
    const MemoryMap memory = *MemoryMap::parse("10000-20000 rw-p\n20000-30000 r--p\n");
    Call call;
    call.collective = collective;
    call.send = reinterpret_cast<const void*>(send);
    call.recv = reinterpret_cast<void*>(recv);
    call.count = kCount;
    call.root = root;
    call.site = {"ncclX", __builtin_return_address(0)};
    return check_buffers(call, kRank, kSize, memory);
  }
  static void expect_refused(const Status& status, const testing::Matcher<std::string>& text) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kInvalidArgument);
    EXPECT_THAT(status.error().what, text);
    EXPECT_THAT(status.error().what, HasSubstr("called at"));
  }
};

TEST_F(Buffers, ThatAreMappedOverTheirWholeLengthPass) {
  EXPECT_TRUE(check(Collective::kAllReduce, 0x10000, 0x1fc00));
  EXPECT_TRUE(check(Collective::kAllGather, 0x2fc00, 0x1f000));
  EXPECT_TRUE(check(Collective::kReduceScatter, 0x1f800, 0x10000)) << "two mappings without a gap";
}

TEST_F(Buffers, ThatAreNotReadableOverTheirWholeLengthAreRefused) {
  expect_refused(check(Collective::kAllReduce, 0x2fc01, 0x10000),
                 AllOf(HasSubstr("sendbuff 0x2fc01 of 1024 bytes (256 elements of type float)"),
                       HasSubstr("not readable memory from 0x30000 on")));
  expect_refused(check(Collective::kReduceScatter, 0x2f001, 0x10000),
                 HasSubstr("sendbuff 0x2f001 of 4096 bytes"));
}

TEST_F(Buffers, ThatAreNotWritableOverTheirWholeLengthAreRefused) {
  expect_refused(check(Collective::kAllReduce, 0x10000, 0x20000),
                 AllOf(HasSubstr("recvbuff 0x20000 of 1024 bytes"),
                       HasSubstr("not writable memory from 0x20000 on")));
  expect_refused(check(Collective::kAllGather, 0x10000, 0x1f400),
                 HasSubstr("recvbuff 0x1f400 of 4096 bytes"));
}

TEST_F(Buffers, ThatThisRankDoesNotUseMayBeAnything) {
  EXPECT_TRUE(check(Collective::kBroadcast, 0xdead, 0x10000, 0));
  EXPECT_TRUE(check(Collective::kGather, 0x20000, 0xdead, 0));
  EXPECT_TRUE(check(Collective::kSend, 0x20000, 0xdead));
  EXPECT_TRUE(check(Collective::kRecv, 0xdead, 0x10000));
  EXPECT_TRUE(check(Collective::kReduce, 0x10000, 0x10004, 0)) << "no overlap without use";
}

TEST_F(Buffers, ThatOverlapArePassedInPlaceAndRefusedElsewhere) {
  EXPECT_TRUE(check(Collective::kAllReduce, 0x10000, 0x10000));
  EXPECT_TRUE(check(Collective::kAllReduce, 0x10000, 0x10400)) << "side by side";
  expect_refused(check(Collective::kAllReduce, 0x10000, 0x10004),
                 AllOf(HasSubstr("sendbuff 0x10000 of 1024 bytes and recvbuff 0x10004"),
                       HasSubstr("where sendbuff is recvbuff")));
  EXPECT_TRUE(check(Collective::kAllGather, 0x10400, 0x10000));
  expect_refused(check(Collective::kAllGather, 0x10000, 0x10000),
                 HasSubstr("sendbuff is block `rank` of recvbuff"));
  EXPECT_TRUE(check(Collective::kReduceScatter, 0x10000, 0x10400));
  expect_refused(check(Collective::kReduceScatter, 0x10000, 0x10000),
                 HasSubstr("recvbuff is block `rank` of sendbuff"));
}

// --- through the C API, on real memory ---

TEST(CheckedCalls, AreRefusedWithTheArgumentAndTheLineOfTheCall) {
  const FakeHandle on;
  on.handle->comm->checks = true;
  float a[4] = {};
  auto* const nowhere = reinterpret_cast<float*>(0x10);
  EXPECT_EQ(tuttiNcclAllReduce(a, nowhere, 4, ncclFloat, ncclSum, on.handle, nullptr),
            ncclInvalidArgument);
  EXPECT_THAT(tuttiNcclGetLastError(on.handle),
              AllOf(HasSubstr("ncclAllReduce: recvbuff 0x10 of 16 bytes"), HasSubstr("test(")));
  EXPECT_EQ(tuttiNcclBcast(nowhere, 4, ncclFloat, 1, on.handle, nullptr), ncclInvalidArgument);
  EXPECT_THAT(tuttiNcclGetLastError(on.handle), HasSubstr("ncclBcast: buff 0x10"));
  EXPECT_EQ(tuttiNcclAllReduce(a, a + 1, 2, ncclFloat, ncclSum, on.handle, nullptr),
            ncclInvalidArgument);
  EXPECT_THAT(tuttiNcclGetLastError(on.handle), HasSubstr("overlap"));
  EXPECT_TRUE(on.fake->calls().empty());
}

TEST(CheckedCalls, CarryTheirPlaceAndOthersDoNot) {
  const FakeHandle on;
  float a[4] = {};
  EXPECT_EQ(tuttiNcclAllReduce(a, a, 4, ncclFloat, ncclSum, on.handle, nullptr), ncclSuccess);
  on.handle->comm->checks = true;
  EXPECT_EQ(tuttiNcclAllReduce(a, a, 4, ncclFloat, ncclSum, on.handle, nullptr), ncclSuccess);
  const std::vector<Call> calls = on.fake->calls();
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].site.caller, nullptr);
  EXPECT_STREQ(calls[1].site.function, "ncclAllReduce");
  EXPECT_THAT(describe(calls[1]), HasSubstr("test("));
}

}  // namespace
}  // namespace tutti::capi
