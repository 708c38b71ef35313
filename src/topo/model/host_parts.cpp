#include "src/topo/model/host_parts.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "src/topo/model/words.hpp"

namespace tutti::topo {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }

/// The digits that `text` begins with, without leading zeros, which are taken from it.
std::string_view take_number(std::string_view& text) {
  const auto end = std::ranges::find_if_not(text, is_digit) - text.begin();
  std::string_view digits = text.substr(0, static_cast<std::size_t>(end));
  text.remove_prefix(digits.size());
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

}  // namespace

void join_cpus(Draft& draft, const CpuModel& cpu) {
  const std::vector<NodeId> cpus = draft.nodes(NodeKind::kCpu);
  if (cpus.size() < 2) return;
  const auto known = cpu_link_bandwidth(cpu);
  if (!known)
    draft.assume(
        fmt::format("the CPUs are of no known kind (vendor {}, family {}, model {}): "
                    "{} GB/s between two of them is assumed",
                    shown(cpu.vendor), cpu.family, cpu.model, kAssumedCpuLinkBandwidth));
  const Pace pace = {known.value_or(kAssumedCpuLinkBandwidth), assumed_latency(LinkKind::kSystem)};
  for (const NodeId a : cpus)
    for (const NodeId b : cpus) draft.link(a, b, LinkKind::kSystem, pace);
}

bool comes_before(std::string_view a, std::string_view b) {
  std::string_view x = a, y = b;
  while (!x.empty() && !y.empty()) {
    if (is_digit(x.front()) && is_digit(y.front())) {
      const std::string_view left = take_number(x), right = take_number(y);
      if (left.size() != right.size()) return left.size() < right.size();
      if (left != right) return left < right;
      continue;
    }
    if (x.front() != y.front()) return x.front() < y.front();
    x.remove_prefix(1);
    y.remove_prefix(1);
  }
  return x.size() != y.size() ? x.size() < y.size() : a < b;  // "a01" before "a1"
}

void join_through_pci(Draft& draft, NodeId cpu, std::span<const PciHop> hops, NodeId device) {
  NodeId above = cpu;
  const auto switches = draft.nodes(NodeKind::kPci);
  for (std::size_t i = 1; i + 1 < hops.size(); i += 2) {
    const PciHop& hop = hops[i];
    const auto known = std::ranges::find_if(
        switches, [&](NodeId node) { return draft.parts().nodes[node].name == hop.bus_id; });
    if (known != switches.end()) {
      above = *known;
      continue;
    }
    const NodeId node = draft.add(NodeKind::kPci, hop.bus_id, hop.attributes);
    draft.join(node, above, LinkKind::kPci, hop.pace);
    above = node;
  }
  if (!hops.empty()) draft.join(device, above, LinkKind::kPci, hops.back().pace);
}

bool is_bus_id(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == text.npos || colon < 4 || colon > 8 || text.size() != colon + 8) return false;
  const std::string_view rest = text.substr(colon);
  return std::ranges::all_of(text.substr(0, colon), is_hex) && is_hex(rest[1]) && is_hex(rest[2]) &&
         rest[3] == ':' && is_hex(rest[4]) && is_hex(rest[5]) && rest[6] == '.' && rest[7] >= '0' &&
         rest[7] <= '7';
}

PciRole pci_role(std::uint32_t pci_class, std::uint32_t vendor) {
  constexpr std::uint32_t kNvidia = 0x10de, kAmd = 0x1002, kIntel = 0x8086;
  const std::uint32_t upper = pci_class >> 8U;
  const bool makes_gpus = vendor == kNvidia || vendor == kAmd || vendor == kIntel;
  switch (upper) {
    case 0x0302:  // 3D controller
    case 0x1200:  // processing accelerator
      return PciRole::kGpu;
    case 0x0300:  // VGA, which Intel's are for desktops
      return vendor == kNvidia || vendor == kAmd ? PciRole::kGpu : PciRole::kOther;
    case 0x0380:  // other display
      return makes_gpus ? PciRole::kGpu : PciRole::kOther;
    case 0x0680:  // other bridge
      return vendor == kNvidia ? PciRole::kNvswitch : PciRole::kOther;
    default:
      return upper >> 8U == 0x02 ? PciRole::kNic : PciRole::kOther;
  }
}

Pace assumed_pci_pace(Draft& draft, std::string_view bus_id) {
  draft.assume_of(bus_id, fmt::format("no speed or width of the PCI link is told: PCIe {} with {} "
                                      "lanes is assumed",
                                      kAssumedPciGeneration, kAssumedPciLanes));
  return {*pci_bandwidth(kAssumedPciGeneration, kAssumedPciLanes), assumed_latency(LinkKind::kPci)};
}

}  // namespace tutti::topo
