// Access control on PCI bridges (ACS): where it redirects, what a NIC reads from a GPU below the
// same switch goes up to the CPU and back, slowly, or is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/topo/detect/probe.hpp"

namespace tutti::topo {

/// The control word of the access control capability in a function's configuration space, little
/// endian. Nothing if it has no such capability, or `config` does not show that far: all 4096 bytes
/// of it are root's to read.
std::optional<std::uint16_t> acs_control(std::span<const std::byte> config);
/// Whether requests from one device to another below the bridge take the way through the CPU.
bool acs_redirects(std::uint16_t control);

/// The bridges between a PCI function and its CPU.
struct AcsOnPath {
  std::vector<std::string> redirecting;  ///< bus ids
  std::vector<std::string> hidden;       ///< whose configuration this process may not read
};
/// `bus_id`: "0000:17:00.0".
Result<AcsOnPath> acs_on_path(SystemProbe& probe, const std::string& bus_id);

}  // namespace tutti::topo
