#include "src/comm/call.hpp"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;

constexpr Rank kRank = 2;
constexpr std::int32_t kSize = 4;
constexpr std::size_t kCount = 3;

std::array<float, 64> memory;

Call call_of(Collective collective, std::size_t send_at, std::size_t recv_at, Rank root = kRank) {
  Call call;
  call.collective = collective;
  call.send = memory.data() + send_at;
  call.recv = memory.data() + recv_at;
  call.count = kCount;
  call.root = root;
  return call;
}

TEST(Call, IsInPlaceWhereItsBlocksCoincideAndNowhereElse) {
  const std::size_t own = kRank * kCount;
  for (const Collective same : {Collective::kAllReduce, Collective::kBroadcast, Collective::kReduce,
                                Collective::kAllToAll}) {
    EXPECT_TRUE(is_in_place(call_of(same, 1, 1), kRank)) << name_of(same);
    EXPECT_FALSE(is_in_place(call_of(same, 1, 2), kRank)) << name_of(same);
  }
  for (const Collective gathers : {Collective::kAllGather, Collective::kGather}) {
    EXPECT_TRUE(is_in_place(call_of(gathers, own, 0), kRank)) << name_of(gathers);
    EXPECT_FALSE(is_in_place(call_of(gathers, 0, 0), kRank)) << name_of(gathers);
  }
  for (const Collective scatters : {Collective::kReduceScatter, Collective::kScatter}) {
    EXPECT_TRUE(is_in_place(call_of(scatters, 0, own), kRank)) << name_of(scatters);
    EXPECT_FALSE(is_in_place(call_of(scatters, 0, 0), kRank)) << name_of(scatters);
  }
  EXPECT_FALSE(is_in_place(call_of(Collective::kBroadcast, 1, 1, 0), kRank)) << "not the root";
}

TEST(Call, KnowsTheBytesThatARankUses) {
  constexpr std::size_t kBlock = kCount * sizeof(float);
  const auto expect = [](Collective collective, Rank root, std::size_t send, std::size_t recv) {
    const BufferBytes bytes = buffer_bytes(call_of(collective, 0, 0, root), kRank, kSize);
    EXPECT_EQ(bytes.send, send) << name_of(collective) << " root " << root;
    EXPECT_EQ(bytes.recv, recv) << name_of(collective) << " root " << root;
  };
  expect(Collective::kAllReduce, 0, kBlock, kBlock);
  expect(Collective::kAllGather, 0, kBlock, kSize * kBlock);
  expect(Collective::kReduceScatter, 0, kSize * kBlock, kBlock);
  expect(Collective::kAllToAll, 0, kSize * kBlock, kSize * kBlock);
  expect(Collective::kBroadcast, kRank, kBlock, kBlock);
  expect(Collective::kBroadcast, 0, 0, kBlock);
  expect(Collective::kReduce, 0, kBlock, 0);
  expect(Collective::kGather, kRank, kBlock, kSize * kBlock);
  expect(Collective::kGather, 0, kBlock, 0);
  expect(Collective::kScatter, 0, 0, kBlock);
  expect(Collective::kSend, 0, kBlock, 0);
  expect(Collective::kRecv, 0, 0, kBlock);
}

TEST(Call, IsDescribedWithItsArgumentsAndItsPlace) {
  Call call = call_of(Collective::kAllReduce, 0, 8);
  call.send = reinterpret_cast<const void*>(0x1000);
  call.recv = reinterpret_cast<void*>(0x2000);
  call.site = {"ncclAllReduce", __builtin_return_address(0)};
  EXPECT_THAT(describe(call),
              MatchesRegex("ncclAllReduce\\(sendbuff=0x1000, recvbuff=0x2000, count=3, float, "
                           "sum\\) at .*test.*\\(.*\\+0x[0-9a-f]+\\)"));
}

TEST(Call, IsDescribedWithTheParametersThatItsFunctionHas) {
  const auto described = [](Collective collective, const char* function) {
    Call call = call_of(collective, 0, 0);
    call.site = {function, __builtin_return_address(0)};
    return describe(call);
  };
  EXPECT_THAT(described(Collective::kSend, "ncclSend"), HasSubstr("peer=2"));
  EXPECT_THAT(described(Collective::kSend, "ncclSend"), Not(HasSubstr("recvbuff")));
  EXPECT_THAT(described(Collective::kRecv, "ncclRecv"), StartsWith("ncclRecv(recvbuff="));
  EXPECT_THAT(described(Collective::kBroadcast, "ncclBcast"), StartsWith("ncclBcast(buff="));
  EXPECT_THAT(described(Collective::kBroadcast, "ncclBcast"), HasSubstr("root=2"));
}

}  // namespace
}  // namespace tutti
