// What is found out about ports before any peer waits for them.
#include "transports/verbs/rail_devices.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/verbs/fake/client.hpp"

namespace tutti::verbs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const FakeClient& fake_library() {
  static const FakeClient kClient(FAKE_VERBS_LIBRARY);
  return kClient;
}

constexpr const char* kOneDevice =
    R"({"devices": [{"name": "a0", "ports": [{"gids": [{"gid": "::ffff:10.0.0.1"}]}]}]})";
constexpr std::uint64_t kAnySeed = 7;
constexpr std::uint32_t kAlways = 1000;

class Found : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(fake_library().live(), 0); }
};

TEST_F(Found, APortThatWorksIsUsed) {
  fake_library().reset(kOneDevice, kAnySeed);
  const auto found = RailDevices::open(fake_library().shared(), {});
  ASSERT_TRUE(found) << found.error().what;
  EXPECT_THAT((*found)->rails(), SizeIs(1));
  EXPECT_THAT((*found)->left_out(), IsEmpty());
}

TEST_F(Found, APortThatSpoilsWhatItWritesIsLeftOut) {
  fake_library().reset(kOneDevice, kAnySeed);
  fake_library().chances({.damage = kAlways});
  const auto found = RailDevices::open(fake_library().shared(), {});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kUnavailable);
  EXPECT_THAT(found.error().what, AllOf(HasSubstr("a0 is not used"), HasSubstr("instead of"),
                                        HasSubstr("(ACS)"), HasSubstr("virtual machine")));
}

TEST_F(Found, APortThatDoesNotReachItselfIsUsedUntested) {
  fake_library().reset(kOneDevice, kAnySeed);
  fake_library().set_cut("a0", 1, true);
  const auto found = RailDevices::open(fake_library().shared(), {});
  ASSERT_TRUE(found) << found.error().what;
  EXPECT_THAT((*found)->rails(), SizeIs(1));
}

TEST_F(Found, ADeviceWithoutRoomForRegistrationsIsLeftOut) {
  fake_library().reset(kOneDevice, kAnySeed);
  fake_library().chances({.fail_registration = kAlways});
  const auto found = RailDevices::open(fake_library().shared(), {});
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().what, AllOf(HasSubstr("a0 is not used"), HasSubstr("memlock")));
}

}  // namespace
}  // namespace tutti::verbs
