// Machines that need not exist, described by one line of text:
//
//   gpu:4x8                      4 hosts of 8 GPUs on an NVSwitch, a NIC each, rails and a spine
//   gpu:2x4,nvlink=0,nics=1      2 hosts of 4 GPUs on PCI alone, one NIC per host
//   cpu:2x8@10GB/s               2 hosts of 8 CPU ranks, 10 GB/s between them
//   tofino:16                    16 hosts of one CPU rank on a switch that adds in slots (SwitchML)
//   ring:8    torus:4x4x4,link=100GB/s,latency=0.5us    mesh:16x16
//
//   text      = shape ":" size {"x" size} ["@" bandwidth] {"," key "=" value}
//   bandwidth = number ["GB/s" | "MB/s" | "Gb/s" | "Mb/s"]     GB/s without a unit
//   latency   = number ["us" | "ns" | "ms"]                    us without a unit
//
// No blanks. "gpu" and "cpu" take hosts x ranks per host, or ranks of a single host; "tofino" takes
// hosts; "ring" one length, "torus" and "mesh" (a torus without its wrap-around) up to three. "@"
// is short for "net=", and for "link=" where there are no hosts. The keys:
//
//   net       gpu, cpu   of one NIC: 50 and 12.5; also of tofino: 12.5
//   nics      gpu, cpu   per host: one per GPU, and 1
//   fabric    gpu, cpu   "rails": NIC i of every host on switch i, or "switch": all on one
//   spines    gpu, cpu   switches that join the rails, together as wide as all NICs: 1
//   nvlink    gpu        of one GPU to the NVSwitch, 0 for none: 450
//   pci       gpu        of one PCI link: 48
//   system    gpu        between the two CPUs: 22
//   memory    cpu        of one rank to the memory of its host: 10; also of tofino: 25
//   link      others     between neighbours: 50
//   latency   all        of a link between NIC and switch: 0.6, of tofino 4.5 with the software of
//                        the hosts; between neighbours: 1
//   nvls      gpu        1: NVSwitches add and copy for groups (src/topo/model/aggregation.hpp): 0
//   sharp     gpu, cpu   groups for which a network switch adds at a time: 0
//   slots     tofino     packets that the switch keeps: 128
//   packet    tofino     bytes of a packet: 1024
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "src/topo/model/topology.hpp"

namespace tutti::topo {

/// What such a text says. A value; bandwidths are GB/s, latencies microseconds.
struct Synthetic {
  enum class Shape : std::uint8_t { kGpu, kCpu, kTofino, kRing, kTorus, kMesh };
  enum class Fabric : std::uint8_t { kRails, kSwitch };

  Shape shape = Shape::kGpu;
  std::vector<std::uint32_t> sizes;  ///< hosts and ranks per host; or the lengths of dimensions
  std::uint32_t nics = 0;            ///< per host; set by parse_synthetic()
  std::uint32_t spines = 1;
  Fabric fabric = Fabric::kRails;
  double network = 0;  ///< set by parse_synthetic(), as is latency
  double nvlink = 450;
  double pci = 48;
  double system = 22;
  double memory = 10;
  double link = 50;
  double latency = 0;
  std::uint32_t nvls = 0;
  std::uint32_t sharp = 0;
  std::uint32_t slots = 128;
  std::uint32_t packet = 1024;

  friend bool operator==(const Synthetic&, const Synthetic&) = default;
};

/// One kind of synthetic machine, for those who ask what there is.
struct SyntheticForm {
  std::string_view text;                     ///< "gpu:HOSTSxGPUS"
  std::string_view title;                    ///< what it makes
  std::vector<std::string_view> parameters;  ///< its keys
};
std::vector<SyntheticForm> synthetic_forms();

/// What a key of such a text means, and what it is where it is left out.
struct SyntheticParameter {
  std::string_view name;
  std::string_view meaning;
};
std::vector<SyntheticParameter> synthetic_parameters();

/// Most ranks of a synthetic machine, and most NICs of one host.
inline constexpr std::uint32_t kMostSyntheticRanks = 65536;
inline constexpr std::uint32_t kMostSyntheticNics = 256;
inline constexpr std::uint32_t kMostSyntheticSpines = 64;
/// Most groups for which a switch adds, slots of a switch, and bytes of a packet.
inline constexpr std::uint32_t kMostSyntheticGroups = 1024;
inline constexpr std::uint32_t kMostSyntheticSlots = 1U << 20U;
inline constexpr std::uint32_t kMostSyntheticPacket = 65536;

/// kInvalidArgument names the column, what stands there and what was expected.
Result<Synthetic> parse_synthetic(std::string_view text);

/// The machine of what parse_synthetic() made, or of values that it would accept. Hosts are "h0"
/// and so on with nodes "gpu0", "cpu0", "nic0"; GPUs of a ring, torus or mesh have a host each,
/// named by its coordinates ("1.0.2"), and a router of the same name that forwards what is for
/// others.
Result<Topology> build(const Synthetic& synthetic);

/// Both.
Result<Topology> synthetic_topology(std::string_view text);

}  // namespace tutti::topo
