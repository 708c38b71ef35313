#include "src/topo/model/bandwidths.hpp"

#include <array>

#include <gtest/gtest.h>

namespace tutti::topo {
namespace {

TEST(NvlinkBandwidth, FollowsTheComputeCapability) {
  const std::array<std::pair<int, double>, 9> known = {{{60, 18},
                                                        {70, 20},
                                                        {75, 20},
                                                        {80, 20},
                                                        {86, 12},
                                                        {89, 20},
                                                        {90, 20.6},
                                                        {100, 40.1},
                                                        {103, 40.1}}};
  for (const auto& [capability, bandwidth] : known)
    EXPECT_EQ(nvlink_bandwidth(capability), bandwidth) << capability;
}

TEST(NvlinkBandwidth, OfAWholeGpuIsBelowItsRawRate) {
  // Raw GB/s of one direction, from NVIDIA's data sheets.
  EXPECT_LT(nvlink_bandwidth(70) * most_nvlinks(70), 150);
  EXPECT_LT(nvlink_bandwidth(80) * most_nvlinks(80), 300);
  EXPECT_LT(nvlink_bandwidth(90) * most_nvlinks(90), 450);
  EXPECT_LT(nvlink_bandwidth(100) * most_nvlinks(100), 900);
  EXPECT_EQ(most_nvlinks(52), 0);
}

TEST(XgmiBandwidth, FollowsTheArchitectureInBothSpellings) {
  for (const char* gcn : {"gfx906", "gfx908:sramecc+:xnack-", "906", "908"})
    EXPECT_EQ(xgmi_bandwidth(gcn), 24) << gcn;
  for (const char* gcn : {"gfx90a", "910"}) EXPECT_EQ(xgmi_bandwidth(gcn), 36) << gcn;
  for (const char* gcn : {"gfx942", "gfx950", "940"}) EXPECT_EQ(xgmi_bandwidth(gcn), 48) << gcn;
  for (const char* gcn : {"", "gfx", "gfx1100", "80"})
    EXPECT_EQ(xgmi_bandwidth(gcn), std::nullopt) << gcn;
  EXPECT_EQ(xgmi_bandwidth(kAssumedGcn), 24);
}

TEST(PciBandwidth, DoublesWithEveryGeneration) {
  double bandwidth = 3;
  for (int generation = 1; generation <= 6; ++generation, bandwidth *= 2)
    EXPECT_EQ(pci_bandwidth(generation, 16), bandwidth) << generation;
  EXPECT_EQ(pci_bandwidth(4, 8), 12);
  EXPECT_EQ(pci_bandwidth(0, 16), std::nullopt);
  EXPECT_EQ(pci_bandwidth(7, 16), std::nullopt);
  EXPECT_EQ(pci_bandwidth(4, 0), std::nullopt);
}

TEST(PciBandwidth, ReadsSpeedsAsLinuxWritesThem) {
  EXPECT_EQ(pci_bandwidth("2.5 GT/s", 16), 3);
  EXPECT_EQ(pci_bandwidth("5 GT/s", 16), 6);
  EXPECT_EQ(pci_bandwidth("5.0 GT/s PCIe", 8), 3);
  EXPECT_EQ(pci_bandwidth("8.0 GT/s PCIe", 16), 12);
  EXPECT_EQ(pci_bandwidth("16.0 GT/s PCIe", 16), 24);
  EXPECT_EQ(pci_bandwidth("32.0 GT/s PCIe", 16), 48);
  EXPECT_EQ(pci_bandwidth("64.0 GT/s PCIe", 16), 96);
  for (const char* unknown :
       {"", "Unknown speed", "16", "16 MT/s", "7 GT/s", "-8 GT/s", "nan GT/s"})
    EXPECT_EQ(pci_bandwidth(unknown, 16), std::nullopt) << unknown;
}

TEST(CpuLinkBandwidth, FollowsTheModel) {
  const auto intel = [](int model) {
    return cpu_link_bandwidth({"x86_64", "GenuineIntel", 6, model});
  };
  EXPECT_EQ(intel(79), 6);
  EXPECT_EQ(intel(85), 10);
  EXPECT_EQ(intel(106), 10);
  EXPECT_EQ(intel(143), 22);
  EXPECT_EQ(intel(207), 40);
  const auto amd = [](int family) {
    return cpu_link_bandwidth({"x86_64", "AuthenticAMD", family, 1});
  };
  for (const int family : {23, 143}) EXPECT_EQ(amd(family), 16);
  for (const int family : {25, 175}) EXPECT_EQ(amd(family), 24);
  for (const int family : {26, 191}) EXPECT_EQ(amd(family), 32);
  EXPECT_EQ(cpu_link_bandwidth({"x86_64", "CentaurHauls", 7, 0x5B}), 9);
  EXPECT_EQ(cpu_link_bandwidth({"x86_64", "  Shanghai  ", 7, 1}), 6);
  EXPECT_EQ(cpu_link_bandwidth({"arm64", "", 0, 0}), 6);
  EXPECT_EQ(cpu_link_bandwidth({"ppc64", "", 0, 0}), 32);
  EXPECT_EQ(cpu_link_bandwidth({"riscv64", "", 0, 0}), std::nullopt);
  EXPECT_EQ(cpu_link_bandwidth({"x86_64", "Transmeta", 6, 200}), std::nullopt);
}

TEST(OtherBandwidths, AreTheStatedRatesInGigabytes) {
  EXPECT_EQ(c2c_bandwidth(22500, 14), 315);
  EXPECT_EQ(network_bandwidth(400000), 50);
  EXPECT_EQ(network_bandwidth(0), 1.25);
  EXPECT_EQ(network_bandwidth(-1), 1.25);
}

TEST(AssumedLatency, IsKnownForEveryKindOfLink) {
  for (int kind = 0; kind < kLinkKinds; ++kind)
    EXPECT_GT(assumed_latency(static_cast<LinkKind>(kind)), 0) << kind;
}

}  // namespace
}  // namespace tutti::topo
