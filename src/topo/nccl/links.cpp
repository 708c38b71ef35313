// Reads NCCL's topology files: the links that do not follow from how elements stand in one another.
#include <algorithm>
#include <optional>

#include "src/base/result.hpp"
#include "src/topo/model/bandwidths.hpp"
#include "src/topo/model/words.hpp"
#include "src/topo/nccl/format.hpp"
#include "src/topo/nccl/reader.hpp"

namespace tutti::topo::nccl {
namespace {

// Of one GPU, or of one PCI function.
constexpr std::size_t kMostLinksOfOne = 256;

/// The children of this name, which are no more than a machine has.
Result<std::vector<pugi::xml_node>> link_elements(const XmlText& xml, pugi::xml_node parent,
                                                  const char* name) {
  std::vector<pugi::xml_node> all;
  for (const pugi::xml_node child : parent.children(name)) {
    if (all.size() == kMostLinksOfOne)
      return xml.error(
          child, fmt::format("<{}> holds more than {} <{}>", parent.name(), kMostLinksOfOne, name));
    TUTTI_TRY(check_values(xml, child));
    all.push_back(child);
  }
  return all;
}

class Linker {
 public:
  Linker(const XmlText& xml, Elements& elements, Assumptions& assumptions)
      : xml_(xml), elements_(elements), parts_(elements.parts), assumptions_(assumptions) {
    for (const InNode& pci : elements.pcis)
      if (const auto bus_id = parse_bus_id(pci.element.attribute("busid").value()))
        by_bus_id_.try_emplace({parts_.nodes[pci.node].host, *bus_id}, pci.node);
  }

  Status run() {
    TUTTI_TRY(join_cpus());
    for (const InNode& pci : elements_.pcis) TUTTI_TRY(read_pci_links(pci));
    for (const InNode& gpu : elements_.gpus) TUTTI_TRY(read_c2c(gpu));
    find_fabric();
    for (const InNode& gpu : elements_.gpus) {
      TUTTI_TRY(read_nvlinks(gpu));
      TUTTI_TRY(read_xgmi(gpu));
    }
    if (latency_missing_)
      assumptions_.add(xml_.root(),
                       "latencies are no part of the format: without tutti_latency_us they are 0");
    return ok_status();
  }

 private:
  /// Every CPU with every other of its host, at the speed of the slower of the two.
  Status join_cpus() {
    std::map<HostId, std::vector<InNode>> by_host;
    for (const InNode& cpu : elements_.cpus) by_host[parts_.nodes[cpu.node].host].push_back(cpu);
    std::size_t links = parts_.links.size();
    for (const auto& [host, cpus] : by_host) links += cpus.size() * (cpus.size() - 1);
    if (links > Topology::kMostLinks)
      return xml_.error(xml_.root(), fmt::format("{} links, most of them between CPUs, are too "
                                                 "many: at most {} are read",
                                                 links, Topology::kMostLinks));
    for (const auto& [host, cpus] : by_host)
      if (cpus.size() > 1) TUTTI_TRY(join_cpus_of_host(cpus));
    return ok_status();
  }

  Status join_cpus_of_host(const std::vector<InNode>& cpus) {
    std::vector<Link> ends;  // bandwidth and latency of each CPU
    for (const InNode& cpu : cpus) {
      TUTTI_ASSIGN(const double latency, latency_of(cpu.element));
      TUTTI_ASSIGN(const double bandwidth, bandwidth_of_cpu(xml_, cpu.element, assumptions_));
      ends.push_back({cpu.node, cpu.node, LinkKind::kSystem, bandwidth, latency});
    }
    for (const Link& a : ends)
      for (const Link& b : ends)
        if (a.from != b.from)
          parts_.links.push_back({a.from, b.from, LinkKind::kSystem,
                                  std::min(a.bandwidth, b.bandwidth),
                                  std::max(a.latency, b.latency)});
    return ok_status();
  }

  Status read_pci_links(const InNode& pci) {
    TUTTI_ASSIGN(const double ignored, latency_of(pci.element));  // its link has it already
    static_cast<void>(ignored);
    TUTTI_ASSIGN(const auto all, link_elements(xml_, pci.element, "pcilink"));
    std::vector<Link> links;
    for (const pugi::xml_node element : all) {
      TUTTI_ASSIGN(const auto target, target_of(element, pci.node));
      if (!target || *target == pci.node) {
        assumptions_.add(element, "a <pcilink> to no other <pci> of its host is kept and not used");
        continue;
      }
      assumptions_.add(element, fmt::format("both ends of a <pcilink> are one switch: it counts as "
                                            "{} GB/s",
                                            kLocalBandwidth));
      TUTTI_ASSIGN(const double latency, latency_of(element));
      gather(links, {pci.node, *target, LinkKind::kPci, kLocalBandwidth, latency}, false);
    }
    std::ranges::copy(links, std::back_inserter(parts_.links));
    return ok_status();
  }

  Status read_c2c(const InNode& gpu) {
    TUTTI_ASSIGN(const auto all, link_elements(xml_, gpu.element, "c2c"));
    std::vector<Link> links;
    for (const pugi::xml_node element : all) {
      TUTTI_ASSIGN(const auto mb_per_s, xml_.integer(element, "bw", {1, INT32_MAX}));
      TUTTI_ASSIGN(const auto count, xml_.integer_or(element, "count", {1, INT32_MAX}, 1));
      TUTTI_ASSIGN(const double latency, latency_of(element));
      const double bandwidth =
          c2c_bandwidth(static_cast<double>(mb_per_s), static_cast<int>(count));
      gather(links, {gpu.node, gpu.cpu, LinkKind::kC2c, bandwidth, latency}, true);
      gather(links, {gpu.cpu, gpu.node, LinkKind::kC2c, bandwidth, latency}, true);
    }
    std::ranges::copy(links, std::back_inserter(parts_.links));
    return ok_status();
  }

  Status read_nvlinks(const InNode& gpu) {
    TUTTI_ASSIGN(const auto all, link_elements(xml_, gpu.element, "nvlink"));
    std::vector<Link> links;
    for (const pugi::xml_node element : all) {
      TUTTI_ASSIGN(const auto count, xml_.integer(element, "count", {1, INT32_MAX}));
      TUTTI_ASSIGN(const double each, bandwidth_of_nvlink(xml_, gpu.element, assumptions_));
      TUTTI_ASSIGN(const double latency, latency_of(element));
      TUTTI_ASSIGN(const auto target, nvlink_target(element, gpu));
      if (!target || *target == gpu.node) {
        assumptions_.add(element, "an <nvlink> to no other GPU of its host is kept and not used");
        continue;
      }
      const double bandwidth = static_cast<double>(count) * each;
      gather(links, {gpu.node, *target, LinkKind::kNvlink, bandwidth, latency}, true);
      if (parts_.nodes[*target].kind != NodeKind::kGpu)  // a GPU has an <nvlink> of its own
        gather(links, {*target, gpu.node, LinkKind::kNvlink, bandwidth, latency}, true);
    }
    std::ranges::copy(links, std::back_inserter(parts_.links));
    return ok_status();
  }

  /// AMD's links, as RCCL writes them: each leads to another GPU, which has one of its own.
  Status read_xgmi(const InNode& gpu) {
    TUTTI_ASSIGN(const auto all, link_elements(xml_, gpu.element, "xgmi"));
    std::vector<Link> links;
    for (const pugi::xml_node element : all) {
      TUTTI_ASSIGN(const auto count, xml_.integer(element, "count", {1, INT32_MAX}));
      TUTTI_ASSIGN(const double latency, latency_of(element));
      TUTTI_ASSIGN(const auto target, target_of(element, gpu.node));
      if (!target || *target == gpu.node || parts_.nodes[*target].kind != NodeKind::kGpu) {
        assumptions_.add(element, "an <xgmi> to no other GPU of its host is kept and not used");
        continue;
      }
      const double bandwidth =
          static_cast<double>(count) * bandwidth_of_xgmi(gpu.element, assumptions_);
      gather(links, {gpu.node, *target, LinkKind::kNvlink, bandwidth, latency}, true);
    }
    std::ranges::copy(links, std::back_inserter(parts_.links));
    return ok_status();
  }

  /// The node at the other end of an <nvlink>; nullopt where it is not in the file.
  Result<std::optional<NodeId>> nvlink_target(pugi::xml_node nvlink, const InNode& gpu) {
    TUTTI_ASSIGN(const auto target, target_of(nvlink, gpu.node));
    if (to_switch(nvlink, gpu.node)) return fabric_of(gpu.node);
    if (pci_class(nvlink.attribute("tclass").value()) == PciClass::kCpu)
      return std::optional(gpu.cpu);
    if (!target || parts_.nodes[*target].kind != NodeKind::kGpu) return std::optional<NodeId>();
    return target;
  }

  /// By the class of the target, and where that is not given, whether it is no GPU's address.
  bool to_switch(pugi::xml_node nvlink, NodeId gpu) {
    const pugi::xml_attribute target_class = nvlink.attribute("tclass");
    if (target_class) return pci_class(target_class.value()) == PciClass::kNvswitch;
    const auto bus_id = parse_bus_id(nvlink.attribute("target").value());
    const bool to_gpu = bus_id && by_bus_id_.contains({parts_.nodes[gpu].host, *bus_id});
    if (!to_gpu)
      assumptions_.add(nvlink,
                       "an <nvlink> without tclass leads to an NVSwitch unless its target "
                       "is a GPU of the file");
    return !to_gpu;
  }

  /// Whether one NVSwitch fabric joins GPUs of several hosts.
  void find_fabric() {
    std::optional<HostId> first;
    for (const InNode& gpu : elements_.gpus)
      for (const pugi::xml_node nvlink : gpu.element.children("nvlink")) {
        if (!to_switch(nvlink, gpu.node)) continue;
        const HostId host = parts_.nodes[gpu.node].host;
        if (!first) first = host;
        if (*first == host || one_fabric_) continue;
        one_fabric_ = true;
        assumptions_.add(nvlink, "GPUs of several hosts lead to NVSwitches: these are one fabric");
      }
  }

  std::optional<NodeId> fabric_of(NodeId gpu) {
    const HostId host = one_fabric_ ? kNoHost : parts_.nodes[gpu].host;
    const auto next = static_cast<NodeId>(parts_.nodes.size());
    const auto [known, added] = fabrics_.try_emplace(host, next);
    if (added) parts_.nodes.push_back({NodeKind::kNvswitch, host, kNvswitches, {}});
    return known->second;
  }

  Result<std::optional<NodeId>> target_of(pugi::xml_node element, NodeId from) {
    const pugi::xml_attribute target = element.attribute("target");
    const auto bus_id = parse_bus_id(target.value());
    if (!bus_id) return xml_.error(element, fmt::format("<{}> lacks target", element.name()));
    const auto known = by_bus_id_.find({parts_.nodes[from].host, *bus_id});
    if (known == by_bus_id_.end()) return std::optional<NodeId>();
    return std::optional(known->second);
  }

  Result<double> latency_of(pugi::xml_node element) {
    if (!element.attribute("tutti_latency_us")) latency_missing_ = true;
    return xml_.real_or(element, "tutti_latency_us", 0);
  }

  /// Links of one node to the same other node are one, whose parts work side by side or, where
  /// `add` is false, are the same.
  static void gather(std::vector<Link>& links, const Link& link, bool add) {
    const auto same = std::ranges::find_if(
        links, [&](const Link& known) { return known.from == link.from && known.to == link.to; });
    if (same == links.end()) {
      links.push_back(link);
      return;
    }
    if (add) same->bandwidth += link.bandwidth;
    same->latency = std::max(same->latency, link.latency);
  }

  const XmlText& xml_;
  Elements& elements_;
  Parts& parts_;
  Assumptions& assumptions_;
  std::map<std::pair<HostId, std::uint64_t>, NodeId> by_bus_id_;
  std::map<HostId, NodeId> fabrics_;
  bool one_fabric_ = false;
  bool latency_missing_ = false;
};

}  // namespace

Status add_links(const XmlText& xml, Elements& elements, Assumptions& assumptions) {
  return Linker(xml, elements, assumptions).run();
}

}  // namespace tutti::topo::nccl
