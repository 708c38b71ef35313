// Each trouble that is known from RDMA networks has its sentence: who, where, why, and a remedy.
#include "transports/verbs/troubles.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::verbs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

DeviceFacts hardware() {
  DeviceFacts device;
  device.name = "mlx5_0";
  device.pci = "0000:17:00.0";
  device.most_queue_pairs = 1024;
  return device;
}

Rail rail_with_mtu(const char* device, std::uint32_t mtu) {
  Rail rail;
  rail.device = device;
  rail.mtu = mtu;
  return rail;
}

TEST(Troubles, ANetworkThatDoesNotAnswerIsToldApartFromAPeerThatDied) {
  const std::string text = explain({.reason = "transport retry counter exceeded",
                                    .unanswered = true,
                                    .queue_pair = 77,
                                    .mtu = 1024,
                                    .own = {.traffic_class = 106, .timeout = 14, .retries = 7},
                                    .port_state = "ACTIVE"});
  EXPECT_THAT(text, AllOf(HasSubstr("transport retry counter exceeded"), HasSubstr("queue pair 77"),
                          HasSubstr("packets of 1024 bytes"), HasSubstr("traffic class 106"),
                          HasSubstr("this port is ACTIVE"), HasSubstr("8 tries within some 537 ms"),
                          HasSubstr("the peer's process lives"), HasSubstr("flow control")));
}

TEST(Troubles, OtherEndsOfAPathSayNothingOfTheNetwork) {
  const std::string text = explain({.reason = "remote access error", .queue_pair = 5, .mtu = 4096});
  EXPECT_THAT(text, AllOf(HasSubstr("remote access error"), Not(HasSubstr("flow control"))));
}

TEST(Troubles, DifferentMtusAreNamedWithTheSmallerOne) {
  EXPECT_FALSE(describe_mtus(rail_with_mtu("a0", 4096), rail_with_mtu("b0", 4096)));
  const auto text = describe_mtus(rail_with_mtu("a0", 4096), rail_with_mtu("b0", 1024));
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, AllOf(HasSubstr("a0:1"), HasSubstr("MTU 4096"), HasSubstr("b0:1"),
                           HasSubstr("MTU 1024"), HasSubstr("packets carry 1024 bytes"),
                           HasSubstr("same MTU")));
}

TEST(Troubles, TrafficClass0IsAWarningOnRoceHardwareOnly) {
  PortFacts port{.number = 2, .link = LinkLayer::kEthernet};
  const auto text = describe_traffic_class(hardware(), port, 0);
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, AllOf(HasSubstr("mlx5_0:2"), HasSubstr("class 0"), HasSubstr("TUTTI_IB_TC")));
  EXPECT_FALSE(describe_traffic_class(hardware(), port, 106));
  DeviceFacts software = hardware();
  software.pci.clear();
  EXPECT_FALSE(describe_traffic_class(software, port, 0));
  port.link = LinkLayer::kInfiniBand;
  EXPECT_FALSE(describe_traffic_class(hardware(), port, 0));
}

TEST(Troubles, TheAdministratorsTrafficClassCountsMore) {
  PortFacts port{.number = 1, .link = LinkLayer::kEthernet, .traffic_class = 106};
  EXPECT_EQ(effective_traffic_class(port, 0), 106);
  EXPECT_FALSE(describe_traffic_class(hardware(), port, 0));
  port.traffic_class = 0;
  EXPECT_TRUE(describe_traffic_class(hardware(), port, 106));
  port.traffic_class = -1;
  EXPECT_EQ(effective_traffic_class(port, 32), 32);
}

TEST(Troubles, MoreQueuePairsThanTheDeviceHasAreFoundBeforeAnyIsMade) {
  const DeviceFacts device = hardware();
  const Need fits{.peers = 512, .queue_pairs_of_peer = 2};
  EXPECT_TRUE(check_need(device, fits, -1));
  const Need too_many{.peers = 513, .queue_pairs_of_peer = 2};
  const Status refused = check_need(device, too_many, -1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_THAT(refused.error().what,
              AllOf(HasSubstr("513 peers"), HasSubstr("need 1026 queue pairs on mlx5_0"),
                    HasSubstr("has 1024"), HasSubstr("TUTTI_IB_HCA")));
}

TEST(Troubles, TooLittleLockedMemoryIsFoundBeforeAnyIsRegistered) {
  const Need need{.peers = 3, .queue_pairs_of_peer = 1, .bytes_of_peer = 512 << 10};
  EXPECT_TRUE(check_need(hardware(), need, -1));
  EXPECT_TRUE(check_need(hardware(), need, 1536 << 10));
  const Status refused = check_need(hardware(), need, 64 << 10);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().what, AllOf(HasSubstr("need 1536 KiB"), HasSubstr("may lock 64 KiB"),
                                          HasSubstr("--ulimit memlock=-1")));
}

}  // namespace
}  // namespace tutti::verbs
