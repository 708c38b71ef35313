#include "src/comm/valid_call.hpp"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

namespace tutti {
namespace {

float place[4];

Call valid_call(Collective collective) {
  Call call;
  call.collective = collective;
  call.send = call.recv = place;
  call.count = 1;
  return call;
}

/// What rank 1 of 4 is told of a call.
std::string told_of_call(const Call& call) {
  const Status valid = check_call(call, 1, 4);
  if (valid) return "";
  EXPECT_EQ(valid.error().code, Code::kInvalidArgument);
  return valid.error().what;
}

TEST(CheckCall, AcceptsEveryCollectiveWithBuffers) {
  for (int c = 0; c < kCollectives; ++c)
    EXPECT_EQ(told_of_call(valid_call(static_cast<Collective>(c))), "") << c;
}

TEST(CheckCall, NamesTheRanksThatThereAre) {
  Call call = valid_call(Collective::kBroadcast);
  call.root = 4;
  EXPECT_EQ(told_of_call(call), "root 4 is not a rank of this communicator (0..3)");
  call = valid_call(Collective::kRecv);
  call.root = -1;
  EXPECT_EQ(told_of_call(call), "peer -1 is not a rank of this communicator (0..3)");
  call = valid_call(Collective::kAllReduce);
  call.root = 4;  // which nobody reads
  EXPECT_EQ(told_of_call(call), "");
}

TEST(CheckCall, RefusesATypeThatIsNone) {
  Call call = valid_call(Collective::kAllReduce);
  call.type = static_cast<DataType>(kDataTypes);
  EXPECT_NE(told_of_call(call).find("datatype 12"), std::string::npos);
}

TEST(CheckCall, SaysTheLargestCount) {
  Call call = valid_call(Collective::kAllGather);
  call.type = DataType::kInt8;
  call.count = (std::size_t{1} << 58) + 1;
  EXPECT_NE(told_of_call(call).find("at most 288230376151711744)"), std::string::npos);
  --call.count;
  EXPECT_EQ(told_of_call(call), "");
  call.count = SIZE_MAX / 8;
  EXPECT_NE(told_of_call(call).find("exceeds the address space"), std::string::npos);
}

TEST(CheckCall, WantsTheBuffersThatTheRankUses) {
  Call call = valid_call(Collective::kReduce);
  call.recv = nullptr;
  EXPECT_EQ(told_of_call(call), "");
  call.root = 1;
  EXPECT_EQ(told_of_call(call), "recvbuff is NULL, with 1 elements to receive");
  call.count = 0;
  EXPECT_EQ(told_of_call(call), "");
}

TEST(CheckCall, WantsBlocksThatFitTheRanksAndTheCount) {
  Call call = valid_call(Collective::kAllGather);
  call.blocks = std::make_shared<const ir::Blocks>(ir::Blocks{{0, 2, 1}, {0, 0, 2}});
  call.count = 3;
  EXPECT_NE(told_of_call(call).find("3 counts and 3 displacements for 4 ranks"), std::string::npos);
  call.blocks = std::make_shared<const ir::Blocks>(ir::Blocks{{0, 2, 1, 0}, {0, 0, 2, 3}});
  EXPECT_EQ(told_of_call(call), "");
  call.send = nullptr;
  EXPECT_EQ(told_of_call(call), "sendbuff is NULL, with 2 elements in its blocks");
  call.count = 4;
  EXPECT_NE(told_of_call(call).find("3 elements in all, and count 4"), std::string::npos);
  call.collective = Collective::kBroadcast;
  EXPECT_NE(told_of_call(call).find("one size"), std::string::npos);
}

}  // namespace
}  // namespace tutti
