#include "src/topo/detect/acs.hpp"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/result.hpp"

namespace tutti::topo {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A configuration space with a capability before that of access control.
std::string config_with(std::uint16_t control, std::uint16_t id = 0x0d) {
  std::string config(4096, '\0');
  const auto put = [&](std::size_t at, std::uint32_t value) {
    for (std::size_t i = 0; i < 4; ++i) config[at + i] = static_cast<char>(value >> 8 * i & 0xff);
  };
  put(0x100, 0x0001U | 1U << 16 | 0x150U << 20);  // error reporting, then what is at 0x150
  put(0x150, id | 1U << 16);
  put(0x154, static_cast<std::uint32_t>(control) << 16);
  return config;
}

std::optional<std::uint16_t> control_in(const std::string& config) {
  return acs_control(std::as_bytes(std::span(config)));
}

TEST(Acs, TheControlWordIsFoundBehindOtherCapabilities) {
  EXPECT_EQ(control_in(config_with(0x5d)), 0x5d);
  EXPECT_EQ(control_in(config_with(0)), 0);
  EXPECT_EQ(control_in(config_with(0x5d, 0x19)), std::nullopt);  // another capability
}

TEST(Acs, HostileConfigurationsSayNothing) {
  EXPECT_EQ(control_in(""), std::nullopt);
  EXPECT_EQ(control_in(config_with(0x5d).substr(0, 64)), std::nullopt);
  EXPECT_EQ(control_in(std::string(4096, '\xff')), std::nullopt);
  std::string circle(4096, '\0');
  circle[0x100] = 1;
  circle[0x102] = 0;
  circle[0x103] = 0x10;  // the next one is at 0x100 again
  EXPECT_EQ(control_in(circle), std::nullopt);
  std::string beyond(4096, '\0');
  beyond[0x100] = 1;
  beyond[0x102] = static_cast<char>(0xf0);
  beyond[0x103] = static_cast<char>(0xff);  // at 0xfff
  EXPECT_EQ(control_in(beyond), std::nullopt);
}

TEST(Acs, OnlyRedirectionMatters) {
  EXPECT_TRUE(acs_redirects(1 << 2));
  EXPECT_TRUE(acs_redirects(1 << 3));
  EXPECT_FALSE(acs_redirects(1 << 0));  // source validation
  EXPECT_FALSE(acs_redirects(0));
}

class Bridges final : public SystemProbe {
 public:
  Result<std::string> read_file(const std::string& path) override {
    const auto found = files.find(path);
    if (found == files.end()) return make_error(Code::kUnavailable, "cannot read {}", path);
    return found->second;
  }
  Result<std::string> link_target(const std::string& path) override { return read_file(path); }
  Result<std::vector<std::string>> list(const std::string&) override {
    return std::vector<std::string>();
  }
  Result<std::string> hwloc_xml() override { return std::string(); }
  Result<std::vector<cuda::GpuFacts>> gpus() override { return std::vector<cuda::GpuFacts>(); }
  std::map<std::string, std::string> files;
};

TEST(Acs, EachBridgeOfThePathIsAskedAndTheDeviceIsNot) {
  Bridges machine;
  const std::string folder = "/sys/bus/pci/devices/";
  machine.files[folder + "0000:03:00.0"] =
      "../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:08.0/0000:03:00.0";
  machine.files[folder + "0000:00:01.0/config"] = config_with(0x1d);
  machine.files[folder + "0000:01:00.0/config"] = config_with(0);
  machine.files[folder + "0000:02:08.0/config"] = std::string(64, '\0');
  machine.files[folder + "0000:03:00.0/config"] = config_with(0x1d);
  const auto found = acs_on_path(machine, "0000:03:00.0");
  ASSERT_TRUE(found) << found.error().what;
  EXPECT_THAT(found->redirecting, ElementsAre("0000:00:01.0"));
  EXPECT_THAT(found->hidden, ElementsAre("0000:02:08.0"));
  EXPECT_FALSE(acs_on_path(machine, "0000:04:00.0"));
}

}  // namespace
}  // namespace tutti::topo
