#include "tools/topo/interface.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/topo/detect/recorded.hpp"

namespace tutti::tools {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Case {
  const char* name;
  const char* link;  ///< where /sys/class/net/eth0 leads
  const char* told;  ///< Mbit/s; "": nothing
  const char* answer;
  bool kept;
};

void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }

constexpr const char* kDevice = "../../devices/pci0000:00/0000:00:03.0/net/eth0";
constexpr const char* kVirtual = "../../devices/virtual/net/eth0";

class OfSpeed : public testing::TestWithParam<Case> {};

// 1.5 GB/s were measured, which are 12000 Mbit/s.
TEST_P(OfSpeed, WhatWasMeasuredIsTakenUnlessADeviceTellsMore) {
  topo::Recording recording;
  recording.add("/sys/class/net/eth0", topo::Recording::SymbolicLink{GetParam().link});
  recording.add("/sys/class/net/eth1/speed", topo::Recording::File{"1000"});
  if (*GetParam().told != '\0')
    recording.add("/sys/class/net/eth0/speed", topo::Recording::File{GetParam().told});
  topo::RecordedProbe machine(recording);
  MeasuredProbe probe(machine, {"eth0", 1.5, "2 ranks on 2 hosts: a, b"});
  const auto speed = probe.read_file("/sys/class/net/eth0/speed");
  ASSERT_TRUE(speed) << speed.error().what;
  EXPECT_EQ(*speed, GetParam().answer);
  EXPECT_EQ(*probe.read_file("/sys/class/net/eth1/speed"), "1000");
  EXPECT_THAT(probe.sentence(), HasSubstr("eth0: 1.5 GB/s each way over TCP, measured between 2 "
                                          "ranks on 2 hosts: a, b; its driver tells "));
  EXPECT_EQ(probe.sentence().ends_with("which is kept"), GetParam().kept) << probe.sentence();
}

INSTANTIATE_TEST_SUITE_P(Told, OfSpeed,
                         testing::Values(Case{"Nothing", kDevice, "", "12000", false},
                                         Case{"Unknown", kDevice, "-1", "12000", false},
                                         Case{"Less", kDevice, "10000", "12000", false},
                                         Case{"More", kDevice, "100000", "100000", true},
                                         Case{"MoreByAVirtualOne", kVirtual, "100000", "12000",
                                              false}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tutti::tools
