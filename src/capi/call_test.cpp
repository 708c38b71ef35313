#include "src/capi/call.hpp"

#include <cstring>

#include <gtest/gtest.h>

#include "src/base/result.hpp"
#include "src/capi/fake_member.hpp"

namespace tutti::capi {
namespace {

float data[4];

class CheckCall : public testing::Test {
 protected:
  FakeHandle on_{1, 4};
  Comm& comm_ = *on_.handle->comm;

  Result<Call> check(const RawCall& raw) {
    Call call;
    TUTTI_TRY(check_call(comm_, raw, call));
    return call;
  }

  void expect_refused(const RawCall& raw, const std::string& part) {
    const auto call = check(raw);
    ASSERT_FALSE(call) << part;
    EXPECT_EQ(call.error().code, Code::kInvalidArgument);
    EXPECT_NE(call.error().what.find(part), std::string::npos) << call.error().what;
  }
};

TEST_F(CheckCall, PassesEverythingOn) {
  const auto call = check({Collective::kReduce, data, data + 2, 2, ncclFloat, ncclMax, 3});
  ASSERT_TRUE(call);
  EXPECT_EQ(call->collective, Collective::kReduce);
  EXPECT_EQ(call->send, data);
  EXPECT_EQ(call->recv, data + 2);
  EXPECT_EQ(call->count, 2U);
  EXPECT_EQ(call->type, DataType::kFloat32);
  EXPECT_EQ(call->op, ReduceOp::kMax);
  EXPECT_EQ(call->root, 3);
}

TEST_F(CheckCall, RefusesARootOrPeerThatIsNoRank) {
  expect_refused({Collective::kBroadcast, data, data, 1, ncclFloat, ncclSum, 4}, "root 4");
  expect_refused({Collective::kSend, data, nullptr, 1, ncclFloat, ncclSum, -1}, "peer -1");
}

TEST_F(CheckCall, RefusesUnknownTypesAndOperators) {
  expect_refused({Collective::kAllReduce, data, data, 1, ncclNumTypes}, "datatype 12");
  expect_refused({Collective::kAllReduce, data, data, 1, -1}, "datatype -1");
  expect_refused({Collective::kAllReduce, data, data, 1, ncclFloat, 5}, "op 5");
  expect_refused({Collective::kAllReduce, data, data, 1, ncclFloat, -2}, "op -2");
}

TEST_F(CheckCall, ChecksTheRootBeforeTheTypeAndTheTypeBeforeTheOperator) {
  expect_refused({Collective::kReduce, nullptr, nullptr, 1, 99, 99, 99}, "root 99");
  expect_refused({Collective::kReduce, nullptr, nullptr, 1, 99, 99, 0}, "datatype 99");
  expect_refused({Collective::kReduce, nullptr, nullptr, 1, ncclFloat, 99, 0}, "op 99");
}

TEST_F(CheckCall, RefusesSizesBeyondTheAddressSpace) {
  expect_refused({Collective::kAllGather, data, data, SIZE_MAX / 8, ncclDouble}, "address space");
}

TEST_F(CheckCall, WantsOnlyThePointersThatThisRankUses) {
  EXPECT_TRUE(check({Collective::kBroadcast, nullptr, data, 1, ncclFloat, 0, 0}));
  EXPECT_TRUE(check({Collective::kReduce, data, nullptr, 1, ncclFloat, 0, 0}));
  EXPECT_TRUE(check({Collective::kAllReduce, nullptr, nullptr, 0, ncclFloat}));
  expect_refused({Collective::kBroadcast, nullptr, data, 1, ncclFloat, 0, 1}, "sendbuff");
  expect_refused({Collective::kScatter, data, nullptr, 1, ncclFloat, 0, 0}, "recvbuff");
  expect_refused({Collective::kRecv, nullptr, nullptr, 1, ncclFloat, 0, 0}, "recvbuff");
}

TEST_F(CheckCall, ReadsAnImmediateScalarWhenItsOperatorIsMadeAndADeviceScalarAtEachUse) {
  float scalar = 0.5F;
  ScaledSum immediate{DataType::kFloat32, nullptr, {}};
  std::memcpy(immediate.scalar, &scalar, sizeof scalar);
  const ncclRedOp_t fixed = *comm_.operators.add(immediate);
  const ncclRedOp_t later = *comm_.operators.add({DataType::kFloat32, &scalar, {}});
  scalar = 0.25F;
  const auto scalar_of = [&](ncclRedOp_t op) {
    const auto call = check({Collective::kAllReduce, data, data, 1, ncclFloat, op});
    EXPECT_TRUE(call && call->op == ReduceOp::kPreMulSum);
    float value = 0;
    std::memcpy(&value, call->scalar, sizeof value);
    return value;
  };
  EXPECT_EQ(scalar_of(fixed), 0.5F);
  EXPECT_EQ(scalar_of(later), 0.25F);
}

TEST_F(CheckCall, RefusesOperatorsOfAnotherTypeOrCommunicatorAndDestroyedOnes) {
  const ncclRedOp_t op = *comm_.operators.add({DataType::kFloat32, nullptr, {}});
  expect_refused({Collective::kAllReduce, data, data, 1, ncclDouble, op}, "scales float");
  const FakeHandle other(0, 2);
  EXPECT_FALSE(other.handle->comm->operators.find(op));
  EXPECT_TRUE(comm_.operators.remove(op));
  EXPECT_FALSE(comm_.operators.remove(op));
  expect_refused({Collective::kAllReduce, data, data, 1, ncclFloat, op}, "operator");
}

}  // namespace
}  // namespace tutti::capi
