// Parts that every description of a host needs, whatever its source: joined CPUs, and devices on a
// tree of PCI switches.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/topo/model/bandwidths.hpp"
#include "src/topo/model/draft.hpp"

namespace tutti::topo {

/// More NUMA nodes than any machine has; each has a link to every other.
inline constexpr std::size_t kMostNumaNodes = 1024;

/// Joins every CPU node of the draft with every other. A CPU that is not known is an assumption.
void join_cpus(Draft& draft, const CpuModel& cpu);

/// An order of names in which "mlx5_2" comes before "mlx5_10": numbers count by their value.
bool comes_before(std::string_view a, std::string_view b);

/// Whether `text` is a PCI address as Linux writes it: "0000:07:00.0", in small letters, the
/// domain with four digits or more.
bool is_bus_id(std::string_view text);

enum class PciRole : std::uint8_t { kGpu, kNic, kNvswitch, kOther };
/// From the class, of 24 bits, and the vendor's number. The display of a server's service processor
/// is no GPU.
PciRole pci_role(std::uint32_t pci_class, std::uint32_t vendor);

/// A PCI function on the way from a host bridge to a device.
struct PciHop {
  std::string bus_id;
  Pace pace;  ///< of the link towards the host bridge
  std::vector<Attribute> attributes;
};

/// Whether the link above hop number `hop` of `hops`, counted from 0, is one between nodes: that of
/// the device itself and of the upstream ports.
constexpr bool has_link(std::size_t hop, std::size_t hops) {
  return hop + 1 == hops || hop % 2 == 1;
}

/// Joins `device` to `cpu` through the PCI switches between them, which are made where they are not
/// yet there. `hops` are the functions from the host bridge down to the device itself, the last.
/// The first, a root port, is part of the CPU; of a switch, which shows itself as an upstream port
/// with downstream ports below, the upstream port becomes the node. Paces and
/// attributes matter where has_link().
void join_through_pci(Draft& draft, NodeId cpu, std::span<const PciHop> hops, NodeId device);

/// Of a PCI link of which nothing is known; `bus_id` becomes a subject of the assumption.
Pace assumed_pci_pace(Draft& draft, std::string_view bus_id);

}  // namespace tutti::topo
