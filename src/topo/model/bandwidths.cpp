#include "src/topo/model/bandwidths.hpp"

#include <array>
#include <charconv>

namespace tutti::topo {
namespace {

/// Usable GB/s of one lane of PCIe 1; every generation doubles it.
constexpr double kFirstPciLane = 1500.0 / 8000;
constexpr int kPciGenerations = 6;

struct PerCapability {
  int from;  ///< compute capability
  double bandwidth;
  int most_links;
};
constexpr std::array kNvlinks = {
    PerCapability{100, 40.1, 18}, PerCapability{90, 20.6, 18}, PerCapability{87, 20, 12},
    PerCapability{86, 12, 12},    PerCapability{80, 20, 12},   PerCapability{70, 20, 6},
    PerCapability{60, 18, 4},     PerCapability{0, 20, 0},
};

const PerCapability& row_of(int capability) {
  for (const PerCapability& row : kNvlinks)
    if (capability >= row.from) return row;
  return kNvlinks.back();
}

double intel_link_bandwidth(const CpuModel& cpu) {
  constexpr int kSkylake = 0x55, kSapphireRapids = 0x8F, kEmeraldRapids = 0xCF;
  if (cpu.family != 6 || cpu.model < kSkylake) return 6;  // Broadwell and older
  if (cpu.model < kSapphireRapids) return 10;
  return cpu.model < kEmeraldRapids ? 22 : 40;
}

double amd_link_bandwidth(const CpuModel& cpu) {
  switch (cpu.family) {
    case 0x19:
    case 0xAF:
      return 24;  // Zen 3 and 4
    case 0x1A:
    case 0xBF:
      return 32;  // Zen 5
    default:
      return 16;
  }
}

double zhaoxin_link_bandwidth(const CpuModel& cpu) {
  const bool yongfeng = cpu.family == 7 && cpu.model == 0x5B;
  return yongfeng ? 9 : 6;
}

}  // namespace

double nvlink_bandwidth(int capability) { return row_of(capability).bandwidth; }
std::optional<double> xgmi_bandwidth(std::string_view gcn) {
  if (gcn.starts_with("gfx")) gcn.remove_prefix(3);
  if (gcn.starts_with("94") || gcn.starts_with("95")) return 48;
  if (gcn.starts_with("90a") || gcn == "910") return 36;
  if (gcn.starts_with("906") || gcn.starts_with("908")) return 24;
  return std::nullopt;
}
int most_nvlinks(int capability) { return row_of(capability).most_links; }

std::optional<double> pci_bandwidth(int generation, int lanes) {
  if (generation < 1 || generation > kPciGenerations || lanes < 1) return std::nullopt;
  return kFirstPciLane * (1 << (generation - 1)) * lanes;
}

std::optional<double> pci_bandwidth(std::string_view speed, int lanes) {
  constexpr std::array<double, kPciGenerations> kTransfers = {2.5, 5, 8, 16, 32, 64};  // GT/s
  double transfers = 0;
  const char* end = speed.data() + speed.size();
  const auto [unit, error] = std::from_chars(speed.data(), end, transfers);
  if (error != std::errc{} || !std::string_view(unit, end).starts_with(" GT/s"))
    return std::nullopt;
  for (int generation = 1; generation <= kPciGenerations; ++generation)
    if (transfers == kTransfers[static_cast<std::size_t>(generation - 1)])
      return pci_bandwidth(generation, lanes);
  return std::nullopt;
}

std::optional<double> cpu_link_bandwidth(const CpuModel& cpu) {
  if (cpu.arch == "ppc64") return 32;
  if (cpu.arch == "arm64") return 6;
  if (cpu.arch != "x86_64") return std::nullopt;
  if (cpu.vendor == "GenuineIntel") return intel_link_bandwidth(cpu);
  if (cpu.vendor == "AuthenticAMD") return amd_link_bandwidth(cpu);
  if (cpu.vendor == "CentaurHauls" || cpu.vendor == "  Shanghai  ")
    return zhaoxin_link_bandwidth(cpu);
  return std::nullopt;
}

double assumed_latency(LinkKind kind) {
  switch (kind) {
    case LinkKind::kNvlink:
      return 0.35;
    case LinkKind::kC2c:
      return 0.3;
    case LinkKind::kPci:
      return 0.25;
    case LinkKind::kSystem:
      return 0.15;
    case LinkKind::kNetwork:
      return 0.6;
  }
  return 0;
}

}  // namespace tutti::topo
