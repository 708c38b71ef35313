#include "src/capi/config.hpp"

#include <cstring>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::capi {
namespace {

using ::testing::HasSubstr;

ncclConfig_t initial() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  return config;
}

void expect_refused(const ncclConfig_t& config, const std::string& part) {
  const auto parsed = parse_config(&config, {});
  ASSERT_FALSE(parsed) << part;
  EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
  EXPECT_NE(parsed.error().what.find(part), std::string::npos) << parsed.error().what;
}

TEST(Config, NullAndTheInitializerMeanTheDefaults) {
  const CommConfig defaults{false, "parent"};
  EXPECT_EQ(*parse_config(nullptr, defaults), defaults);
  const ncclConfig_t config = initial();
  EXPECT_EQ(*parse_config(&config, defaults), defaults);
}

TEST(Config, TakesWhatIsSet) {
  ncclConfig_t config = initial();
  config.blocking = 0;
  config.commName = "workers";
  EXPECT_EQ(*parse_config(&config, {}), (CommConfig{false, "workers"}));
}

TEST(Config, RefusesAForeignMagicAndAnAbsurdSize) {
  ncclConfig_t config = initial();
  config.magic = 0;
  expect_refused(config, "magic");
  config = initial();
  config.size = 8;
  expect_refused(config, "size");
  config.size = std::size_t{1} << 40;
  expect_refused(config, "size");
}

TEST(Config, RefusesEachFieldOutOfItsRange) {
  const auto try_value = [](int ncclConfig_t::* field, int value, const char* name) {
    ncclConfig_t config = initial();
    config.*field = value;
    expect_refused(config, name);
  };
  try_value(&ncclConfig_t::blocking, 2, "blocking");
  try_value(&ncclConfig_t::cgaClusterSize, 9, "cgaClusterSize");
  try_value(&ncclConfig_t::minCTAs, 0, "minCTAs");
  try_value(&ncclConfig_t::maxCTAs, -1, "maxCTAs");
  try_value(&ncclConfig_t::splitShare, 7, "splitShare");
  try_value(&ncclConfig_t::trafficClass, -5, "trafficClass");
  try_value(&ncclConfig_t::collnetEnable, 2, "collnetEnable");
  try_value(&ncclConfig_t::CTAPolicy, 4, "CTAPolicy");
  try_value(&ncclConfig_t::shrinkShare, -1, "shrinkShare");
  try_value(&ncclConfig_t::nvlsCTAs, 0, "nvlsCTAs");
  try_value(&ncclConfig_t::nChannelsPerNetPeer, 65, "nChannelsPerNetPeer");
  try_value(&ncclConfig_t::nvlinkCentricSched, 2, "nvlinkCentricSched");
}

TEST(Config, RefusesMoreMinimalThanMaximalCtas) {
  ncclConfig_t config = initial();
  config.minCTAs = 9;
  config.maxCTAs = 8;
  expect_refused(config, "minCTAs 9");
}

TEST(Config, GoesOnWithoutANetworkThatIsNotHere) {
  ncclConfig_t config = initial();
  config.netName = "sOCKET";
  EXPECT_TRUE(parse_config(&config, {}));
  config.netName = "IB";
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(parse_config(&config, {}));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("asks for the network 'IB', which is not here: hosts talk by TCP"));
}

/// A caller built against 2.14 owns 24 bytes and knows `blocking` alone.
TEST(Config, ReadsNoByteBeyondAnOldCallersStructure) {
  struct Old {
    std::size_t size = 24;
    unsigned magic = NCCL_API_MAGIC;
    unsigned version = NCCL_VERSION(2, 14, 3);
    int blocking = 0;
  };
  static_assert(sizeof(Old) == 24);
  const auto old = std::make_unique<Old>();  // on the heap, so that ASan sees an overrun
  const auto parsed = parse_config(reinterpret_cast<const ncclConfig_t*>(old.get()), {});
  ASSERT_TRUE(parsed);
  EXPECT_FALSE(parsed->blocking);
}

TEST(Config, IgnoresFieldsThatAreNewerThanTheCallersVersion) {
  ncclConfig_t config = initial();
  config.version = NCCL_VERSION(2, 21, 5);
  config.nvlinkCentricSched = 12345;  // no such field for a 2.21 program: padding or garbage
  EXPECT_TRUE(parse_config(&config, {}));
}

TEST(Config, AcceptsTheLongerStructureOfALaterVersion) {
  std::vector<unsigned char> later(96, 0x7f);
  ncclConfig_t head = initial();
  head.size = later.size();
  head.version = NCCL_VERSION(2, 30, 7);
  head.blocking = 0;
  std::memcpy(later.data(), &head, sizeof head);
  const auto parsed = parse_config(reinterpret_cast<const ncclConfig_t*>(later.data()), {});
  ASSERT_TRUE(parsed) << parsed.error().what;
  EXPECT_FALSE(parsed->blocking);
}

}  // namespace
}  // namespace tutti::capi
