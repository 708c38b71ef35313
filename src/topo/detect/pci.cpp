// The PCI functions of a system, and the way from each to its CPU.
#include <algorithm>
#include <charconv>
#include <string>

#include <fmt/format.h>

#include "src/topo/detect/detection.hpp"

namespace tutti::topo::detection {
namespace {

constexpr std::string_view kDevices = "/sys/bus/pci/devices/";

std::string path_of(const std::string& bus_id, const char* file) {
  return fmt::format("{}{}/{}", kDevices, bus_id, file);
}

/// "0x10de"; 0 for what is no such number.
std::uint32_t hexadecimal(const std::string& text) {
  std::uint32_t value = 0;
  const char* const end = text.data() + text.size();
  if (!text.starts_with("0x") || std::from_chars(text.data() + 2, end, value, 16).ptr != end)
    return 0;
  return value;
}

/// The addresses in "../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0", at most 32.
std::vector<std::string> addresses_in(std::string_view link) {
  std::vector<std::string> found;
  while (!link.empty() && found.size() < 32) {
    const std::size_t end = std::min(link.find('/'), link.size());
    if (is_bus_id(link.substr(0, end))) found.emplace_back(link.substr(0, end));
    link.remove_prefix(std::min(end + 1, link.size()));
  }
  return found;
}

/// Whether pci_role() could give such a class a role, of any vendor: most functions need no look.
bool may_have_role(std::uint32_t pci_class) {
  const std::uint32_t base = pci_class >> 16U;
  return base == 0x02 || base == 0x03 || base == 0x12 || pci_class >> 8U == 0x0680;
}

/// What is known of one end of a PCI link.
struct LinkEnd {
  std::string speed;  ///< "16.0 GT/s PCIe"
  int width = 0;
  [[nodiscard]] std::optional<double> bandwidth() const { return pci_bandwidth(speed, width); }
};

LinkEnd read_end(Inquiry& ask, const std::string& bus_id, std::string_view which) {
  constexpr std::int64_t kWidest = 32;  // 0 and 255 stand for what is not known
  const auto width = ask.number(fmt::format("{}{}/{}_link_width", kDevices, bus_id, which));
  return {ask.word(fmt::format("{}{}/{}_link_speed", kDevices, bus_id, which)).value_or(""),
          width && *width <= kWidest ? static_cast<int>(*width) : 0};
}

/// The slower of two ends; the one that is known where only one is.
LinkEnd slower(const LinkEnd& a, const LinkEnd& b) {
  const auto of_a = a.bandwidth(), of_b = b.bandwidth();
  if (!of_a || (of_b && *of_b < *of_a)) return b;
  return a;
}

}  // namespace

PciBus::PciBus(Inquiry& ask) : ask_(ask) {
  std::string directory(kDevices);
  directory.pop_back();
  for (const std::string& bus_id : ask.names(directory))
    if (is_bus_id(bus_id)) read(bus_id);
}

void PciBus::read(const std::string& bus_id) {
  PciFunction function;
  function.bus_id = bus_id;
  const std::string pci_class = ask_.word(path_of(bus_id, "class")).value_or("");
  function.pci_class = hexadecimal(pci_class);
  if (!may_have_role(function.pci_class)) return;
  const std::string vendor = ask_.word(path_of(bus_id, "vendor")).value_or("");
  function.vendor = hexadecimal(vendor);
  if (function.role() == PciRole::kOther) return;
  function.attributes = {{"busid", bus_id},
                         {"class", pci_class},
                         {"vendor", vendor},
                         {"device", ask_.word(path_of(bus_id, "device")).value_or("")}};
  std::string itself(kDevices);
  if (const auto link = ask_.link_target(itself + bus_id)) function.path = addresses_in(*link);
  if (function.path.empty() || function.path.back() != bus_id) function.path = {bus_id};
  if (const auto physical = ask_.link_target(path_of(bus_id, "physfn"))) {
    const auto names = addresses_in(*physical);
    if (!names.empty() && names.back() != bus_id) function.physical = names.back();
  }
  functions_.emplace(bus_id, std::move(function));
}

const PciFunction* PciBus::find(const std::string& bus_id) const {
  const auto found = functions_.find(bus_id);
  return found == functions_.end() ? nullptr : &found->second;
}

NodeId PciBus::cpu_of(const std::string& bus_id) {
  Draft& draft = ask_.draft();
  const std::vector<NodeId> cpus = draft.nodes(NodeKind::kCpu);
  if (cpus.size() == 1) return cpus.front();
  const PciFunction* const function = find(bus_id);
  const std::vector<std::string> path = function ? function->path : std::vector{bus_id};
  for (auto hop = path.rbegin(); hop != path.rend(); ++hop) {
    const auto numa = ask_.number(path_of(*hop, "numa_node"));
    if (!numa || *numa < 0) continue;  // -1: not known
    for (const NodeId cpu : cpus)
      if (draft.value(cpu, "numaid") == fmt::format("{}", *numa)) return cpu;
  }
  draft.assume_of(bus_id, fmt::format("no numa_node of a CPU is told: `{}` is assumed",
                                      draft.parts().nodes[cpus.front()].name));
  return cpus.front();
}

PciHop PciBus::hop(const std::string& bus_id, const std::string& above, Idle idle) {
  Draft& draft = ask_.draft();
  const LinkEnd now = read_end(ask_, bus_id, "current");
  LinkEnd most = read_end(ask_, bus_id, "max");
  if (!above.empty()) most = slower(most, read_end(ask_, above, "max"));
  const bool rests = idle == Idle::kRests;
  const LinkEnd& used = (rests && most.bandwidth()) || !now.bandwidth() ? most : now;
  PciHop hop{bus_id, {}, {{"busid", bus_id}}};
  for (const char* key : {"class", "vendor", "device"})
    hop.attributes.push_back({key, ask_.word(path_of(bus_id, key)).value_or("")});
  const auto bandwidth = used.bandwidth();
  if (!bandwidth) {
    hop.pace = assumed_pci_pace(draft, bus_id);
    return hop;
  }
  hop.pace = {*bandwidth, assumed_latency(LinkKind::kPci)};
  hop.attributes.push_back({"link_speed", used.speed});
  hop.attributes.push_back({"link_width", fmt::format("{}", used.width)});
  if (!now.bandwidth() || !most.bandwidth() || *now.bandwidth() >= *most.bandwidth()) return hop;
  const std::string slow =
      fmt::format("the PCI link runs at {} x{}, and can do {} x{}: ", now.speed, now.width,
                  most.speed, most.width);
  draft.assume_of(bus_id,
                  rests ? slow + "it is assumed to rest" : slow + "only what it runs at counts");
  return hop;
}

void PciBus::attach(NodeId device, const std::string& bus_id, Idle idle) {
  const PciFunction* function = find(bus_id);
  const std::vector<std::string> own = function ? function->path : std::vector{bus_id};
  if (function != nullptr)
    for (const auto& [key, value] : function->attributes) ask_.draft().say(device, key, value);
  // A virtual function's own link is none: it uses that of its physical function.
  const PciFunction* const physical = function ? find(function->physical) : nullptr;
  const std::vector<PciHop> hops = hops_of(physical ? physical->path : own, idle);
  for (const auto& [key, value] : hops.back().attributes) ask_.draft().say(device, key, value);
  join_through_pci(ask_.draft(), cpu_of(bus_id), hops, device);
}

std::vector<PciHop> PciBus::hops_of(const std::vector<std::string>& path, Idle idle) {
  std::vector<PciHop> hops;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const std::string above = i > 0 ? path[i - 1] : "";
    const bool device = i + 1 == path.size();
    hops.push_back(has_link(i, path.size()) ? hop(path[i], above, device ? idle : Idle::kStays)
                                            : PciHop{path[i], {}, {}});
  }
  return hops;
}

}  // namespace tutti::topo::detection
