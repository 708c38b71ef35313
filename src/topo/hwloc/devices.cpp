// Reads hwloc's XML: GPUs, NICs and the PCI switches that lead to them.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/result.hpp"
#include "src/topo/hwloc/reader.hpp"
#include "src/topo/model/host_parts.hpp"
#include "src/topo/model/words.hpp"

namespace tutti::topo::hwloc {
namespace {

// hwloc tells the raw rate of a PCI link, 128b/130b coding deducted: 15.754 GB/s of PCIe 3 x16.
constexpr double kRawPcie3x16 = 8.0 * 16 / 8 * 128 / 130;

/// Where an object stands.
struct Place {
  NodeId cpu = 0;
  bool of_several = false;  ///< it belongs to several NUMA nodes, of which `cpu` is the first
  std::vector<PciHop> hops;
};

/// "0302 [10de:20b0] [10de:1463] a1"
struct PciType {
  std::uint32_t upper_class = 0, vendor = 0, device = 0, subsystem_vendor = 0, subsystem_device = 0;
};

std::optional<PciType> pci_type(std::string_view text) {
  PciType type;
  constexpr std::string_view kForm = "cccc [vvvv:dddd] [ssss:uuuu]";
  if (text.size() < kForm.size()) return std::nullopt;
  const auto field = [&](std::size_t at, std::uint32_t& value) {
    const char* const end = text.data() + at + 4;
    return std::from_chars(text.data() + at, end, value, 16).ptr == end;
  };
  if (!field(0, type.upper_class) || !field(6, type.vendor) || !field(11, type.device) ||
      !field(18, type.subsystem_vendor) || !field(23, type.subsystem_device))
    return std::nullopt;
  return type;
}

enum class OsKind : std::uint8_t { kGpu, kVerbs, kNet, kOther };

/// hwloc's kinds of OSDev: in version 2 one number, in version 3 a sum of bits.
struct OsTypes {
  bool computes = false;  ///< GPU: 1, or bit 2; co-processor: 5, or bit 3
  bool network = false;   ///< 2, or bit 4
  bool verbs = false;     ///< openfabrics: 3, or bit 5
};

OsTypes types_of(pugi::xml_node object) {
  const unsigned type = object.attribute("osdev_type").as_uint();
  const std::string_view version = object.root().child("topology").attribute("version").value();
  if (version.starts_with("2."))
    return {.computes = type == 1 || type == 5, .network = type == 2, .verbs = type == 3};
  return {
      .computes = (type & 0xcU) != 0, .network = (type & 0x10U) != 0, .verbs = (type & 0x20U) != 0};
}

OsKind kind_of(pugi::xml_node object) {
  const std::string_view name = object.attribute("name").value();
  const OsTypes types = types_of(object);
  if (types.verbs) return OsKind::kVerbs;
  if (types.network) return name == "lo" ? OsKind::kOther : OsKind::kNet;
  const bool known = name.starts_with("cuda") || name.starts_with("nvml") ||
                     name.starts_with("rsmi") || name.starts_with("ze");
  return known && types.computes ? OsKind::kGpu : OsKind::kOther;
}

class DeviceReader {
 public:
  DeviceReader(const XmlText& xml, const std::vector<Cpu>& cpus, Draft& draft)
      : xml_(xml), cpus_(cpus), draft_(draft) {}

  Status run() {
    TUTTI_TRY(visit(xml_.root().child("object"), {cpus_.front().node, cpus_.size() > 1, {}}));
    if (draft_.nodes(NodeKind::kGpu).size() > 1)
      draft_.assume("what joins GPUs beside PCI is not read from hwloc: no NVLink is assumed");
    if (!draft_.parts().links.empty())
      draft_.assume("hwloc tells no latencies: typical ones are assumed");
    return ok_status();
  }

 private:
  /// At most XmlText::kMostDepth deep.
  Status visit(pugi::xml_node object, Place place) {
    const std::string_view type = object.attribute("type").value();
    if (type == "PCIDev") return read_function(object, std::move(place));
    if (type == "OSDev") {
      add_local_nic(object, place);
    } else if (type == "Bridge") {
      TUTTI_TRY(enter_bridge(object, place));
    } else {
      TUTTI_TRY(locate(object, place));
    }
    for (const pugi::xml_node child : object.children("object")) TUTTI_TRY(visit(child, place));
    return ok_status();
  }

  Status locate(pugi::xml_node object, Place& place) {
    TUTTI_ASSIGN(const CpuMask nodes, mask(xml_, object, "nodeset"));
    const auto in = [&](const Cpu& cpu) { return nodes.contains(cpu.os_index); };
    const auto first = std::ranges::find_if(cpus_, in);
    if (first == cpus_.end()) return ok_status();
    place.cpu = first->node;
    place.of_several = std::ranges::count_if(cpus_, in) > 1;
    return ok_status();
  }

  Status enter_bridge(pugi::xml_node bridge, Place& place) {
    if (std::string_view(bridge.attribute("bridge_type").value()).starts_with("0")) {
      place.hops.clear();
      return ok_status();
    }
    TUTTI_ASSIGN(PciHop hop, hop_of(bridge));
    place.hops.push_back(std::move(hop));
    return ok_status();
  }

  Result<PciHop> hop_of(pugi::xml_node function) {
    const pugi::xml_attribute bus_id = function.attribute("pci_busid");
    if (!is_bus_id(bus_id.value()))
      return xml_.wrong_value(bus_id, function, "pci_busid such as 0000:07:00.0");
    const pugi::xml_attribute type = function.attribute("pci_type");
    const auto known = pci_type(type.value());
    if (!known) return xml_.wrong_value(type, function, "pci_type such as 0302 [10de:20b0] [...]");
    TUTTI_ASSIGN(const double raw, xml_.real_or(function, "pci_link_speed", 0));
    PciHop hop = {bus_id.value(), {}, {}};
    if (raw > 0 && raw < 1e6)
      hop.pace = {raw / kRawPcie3x16 * *pci_bandwidth(3, 16), assumed_latency(LinkKind::kPci)};
    hop.attributes = {{"busid", hop.bus_id},
                      {"class", fmt::format("{:#06x}00", known->upper_class)},
                      {"vendor", fmt::format("{:#06x}", known->vendor)},
                      {"device", fmt::format("{:#06x}", known->device)},
                      {"subsystem_vendor", fmt::format("{:#06x}", known->subsystem_vendor)},
                      {"subsystem_device", fmt::format("{:#06x}", known->subsystem_device)}};
    return hop;
  }

  Status read_function(pugi::xml_node function, Place place) {
    TUTTI_ASSIGN(PciHop hop, hop_of(function));
    place.hops.push_back(std::move(hop));
    if (first_of(function, OsKind::kGpu) || is_bare_gpu(function)) {
      add_gpu(function, place);
    } else {
      const OsKind kind = first_of(function, OsKind::kVerbs) ? OsKind::kVerbs : OsKind::kNet;
      for (const pugi::xml_node child : function.children("object"))
        if (child.attribute("osdev_type") && kind_of(child) == kind)
          add_nic(function, child, place);
    }
    return ok_status();
  }

  static pugi::xml_node first_of(pugi::xml_node function, OsKind kind) {
    for (const pugi::xml_node child : function.children("object"))
      if (child.attribute("osdev_type") && kind_of(child) == kind) return child;
    return {};
  }

  /// lstopo tells GPUs apart only where it was built with their makers' libraries.
  static bool is_bare_gpu(pugi::xml_node function) {
    const PciType type = *pci_type(function.attribute("pci_type").value());
    return pci_role(type.upper_class << 8U, type.vendor) == PciRole::kGpu;
  }

  void add_gpu(pugi::xml_node function, Place& place) {
    const std::size_t number = draft_.nodes(NodeKind::kGpu).size();
    auto words = place.hops.back().attributes;
    words.push_back({"dev", fmt::format("{}", number)});
    words.push_back({"model", info(first_of(function, OsKind::kGpu), "GPUModel")});
    attach(draft_.add(NodeKind::kGpu, fmt::format("gpu{}", number), std::move(words)), place);
  }

  void add_nic(pugi::xml_node function, pugi::xml_node device, Place& place) {
    auto words = place.hops.back().attributes;
    const char* const name = device.attribute("name").value();
    words.push_back({"name", name});
    if (const pugi::xml_node net = first_of(function, OsKind::kNet); net && net != device)
      words.push_back({"netdev", net.attribute("name").value()});
    attach(draft_.add(NodeKind::kNic, name, std::move(words)), place);
  }

  /// An interface that stands in no PCI function is software, or on a bus that is not described.
  void add_local_nic(pugi::xml_node device, const Place& place) {
    const OsKind kind = kind_of(device);
    if (kind != OsKind::kNet && kind != OsKind::kVerbs) return;
    const char* const name = device.attribute("name").value();
    const NodeId node = draft_.add(NodeKind::kNic, name, {{"name", name}});
    draft_.join(node, place.cpu, LinkKind::kPci, {kLocalBandwidth, 0});
  }

  void attach(NodeId device, Place& place) {
    if (place.of_several)
      draft_.assume_of(place.hops.back().bus_id,
                       "its place is told no closer than several NUMA nodes: the first is assumed");
    for (std::size_t i = 0; i < place.hops.size(); ++i)
      if (has_link(i, place.hops.size()) && place.hops[i].pace.bandwidth <= 0)
        place.hops[i].pace = assumed_pci_pace(draft_, place.hops[i].bus_id);
    join_through_pci(draft_, place.cpu, place.hops, device);
  }

  const XmlText& xml_;
  const std::vector<Cpu>& cpus_;
  Draft& draft_;
};

}  // namespace

Status add_devices(const XmlText& xml, const std::vector<Cpu>& cpus, Draft& draft) {
  return DeviceReader(xml, cpus, draft).run();
}

}  // namespace tutti::topo::hwloc
