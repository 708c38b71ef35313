// Usable bandwidth of a link, for files and machines that only say what kind of link it is.
//
// Bandwidths are GB/s in one direction: the raw rate of the link less the cost of its protocol.
// Unless a comment names another source they are the values that NCCL 2.30 computes with (its file
// src/graph/topo.h, and the tables of speeds and CPU models in src/graph/topo.cc).
#pragma once

#include <optional>
#include <string_view>

#include "src/topo/model/topology.hpp"

namespace tutti::topo {

/// Between two ranks in one memory; wider than every link.
inline constexpr double kLocalBandwidth = 5000;

/// What NCCL takes of a link whose speed is not known: PCIe of generation 3, of 16 lanes where the
/// width is not known, and a network of 10 Gb/s.
inline constexpr int kAssumedPciGeneration = 3;
inline constexpr int kAssumedPciLanes = 16;
inline constexpr double kAssumedNetworkBandwidth = 1.25;

/// Traffic between two GPUs takes this much more of each PCI link where it crosses the root complex
/// of an Intel CPU, which cuts it into packets of 64 bytes.
inline constexpr double kIntelPeerOverhead = 6.0 / 5.0;

/// One NVLink of a GPU of CUDA's compute capability `capability` (90 for 9.0).
double nvlink_bandwidth(int capability);

/// Most NVLinks that a GPU of that compute capability has; 0 below 6.0.
int most_nvlinks(int capability);

/// One xGMI link of an AMD GPU of this architecture: "gfx942", or the number that older files have
/// (908, 910). nullopt for others. The values are those of RCCL (its file src/graph/topo.h).
std::optional<double> xgmi_bandwidth(std::string_view gcn);
inline constexpr std::string_view kAssumedGcn = "gfx906";  ///< the slowest

/// A PCI link of `generation` 1 to 6 and so many lanes; nullopt for other generations and for less
/// than one lane.
std::optional<double> pci_bandwidth(int generation, int lanes);

/// The same, with the speed as Linux writes it: "2.5 GT/s", "16.0 GT/s PCIe". nullopt for a speed
/// of no generation ("Unknown speed").
std::optional<double> pci_bandwidth(std::string_view speed, int lanes);

/// A CPU as NCCL's XML describes it. Family and model are CPUID's; of AMD's both spellings are
/// known, with (25) and without (175) the base family added as a number.
struct CpuModel {
  std::string_view arch;    ///< "x86_64", "arm64", "ppc64"
  std::string_view vendor;  ///< "GenuineIntel", "AuthenticAMD", "CentaurHauls", "  Shanghai  "
  int family = 0;
  int model = 0;
};

/// Between two NUMA nodes of such CPUs; nullopt for a CPU that is not known.
std::optional<double> cpu_link_bandwidth(const CpuModel& cpu);

/// Of the slowest CPU above: what to assume for an unknown one.
inline constexpr double kAssumedCpuLinkBandwidth = 6;

/// A GPU's link to its CPU: so many lanes of so many MB/s each.
inline double c2c_bandwidth(double megabytes_per_second, int count) {
  return megabytes_per_second * count / 1000;
}

/// A network port of so many Mb/s; what is not positive counts as unknown.
inline double network_bandwidth(double megabits_per_second) {
  return megabits_per_second > 0 ? megabits_per_second / 8000 : kAssumedNetworkBandwidth;
}

/// Microseconds across one link, for files that say none. These are assumptions of ours, of the
/// order of what is published for current machines: a GPU reaches its neighbour through an NVSwitch
/// in less than 1 microsecond, a host another through one InfiniBand switch in less than 2.
double assumed_latency(LinkKind kind);

}  // namespace tutti::topo
