// GPUs: from NVML, which knows their NVLinks, and from the classes of PCI functions.
#include <algorithm>
#include <map>
#include <string>

#include <fmt/format.h>

#include "src/topo/detect/detection.hpp"
#include "src/topo/model/words.hpp"

namespace tutti::topo::detection {
namespace {

using cuda::GpuFacts;
using cuda::NvlinkBundle;
using cuda::NvlinkEnd;

constexpr std::uint32_t kNvidia = 0x10de;

class GpuReader {
 public:
  GpuReader(Inquiry& ask, PciBus& pci) : pci_(pci), draft_(ask.draft()) {
    auto facts = ask.system().gpus();
    if (facts) {
      facts_ = *std::move(facts);
      if (!facts_.empty()) ask.count_answer();
      told_ = true;
    } else {
      why_not_ = facts.error().what;
    }
  }

  void run() {
    for (const GpuFacts& gpu : facts_) add(gpu);
    for (const auto& [bus_id, function] : pci_.functions())
      if (function.role() == PciRole::kGpu) add_by_class(function);
    for (const GpuFacts& gpu : facts_) add_links(gpu);
  }

 private:
  NodeId add_node(const std::string& bus_id, std::vector<Attribute> words) {
    const std::size_t number = nodes_.size();
    words.push_back({"dev", fmt::format("{}", number)});
    words.push_back({"busid", bus_id});
    const NodeId node = draft_.add(NodeKind::kGpu, fmt::format("gpu{}", number), std::move(words));
    nodes_.emplace(bus_id, node);
    pci_.attach(node, bus_id, PciBus::Idle::kRests);
    return node;
  }

  void add(const GpuFacts& gpu) {
    if (!is_bus_id(gpu.bus_id) || nodes_.contains(gpu.bus_id)) {
      draft_.assume(
          fmt::format("NVML tells a GPU at {}, which is no place of its own: it is left "
                      "out",
                      shown(gpu.bus_id)));
      return;
    }
    std::vector<Attribute> words = {{"model", gpu.name}};
    if (gpu.compute_major > 0) words.push_back({"sm", fmt::format("{}", capability(gpu))});
    if (gpu.fabric) {
      words.push_back({"fabric_cluster", gpu.fabric->cluster});
      words.push_back({"fabric_clique", fmt::format("{}", gpu.fabric->clique)});
    }
    add_node(gpu.bus_id, std::move(words));
  }

  /// What NVML tells nothing of: other makers' GPUs, and NVIDIA's where there is no NVML.
  void add_by_class(const PciFunction& function) {
    if (nodes_.contains(function.bus_id)) return;
    if (function.vendor == kNvidia && told_) {
      draft_.assume_of(function.bus_id,
                       "a GPU that NVML does not show to this process: it is left out");
      return;
    }
    const std::string why = function.vendor == kNvidia ? fmt::format(" ({})", why_not_) : "";
    draft_.assume_of(function.bus_id,
                     fmt::format("a GPU by its PCI class, of which nothing else is told{}: no link "
                                 "beside PCI is assumed",
                                 why));
    add_node(function.bus_id, {});
  }

  static int capability(const GpuFacts& gpu) { return gpu.compute_major * 10 + gpu.compute_minor; }

  void add_links(const GpuFacts& gpu) {
    const auto found = nodes_.find(gpu.bus_id);
    if (found == nodes_.end()) return;
    const NodeId node = found->second;
    if (gpu.compute_major == 0 && !gpu.nvlinks.empty())
      draft_.assume_of(
          gpu.bus_id,
          fmt::format("NVML tells no compute capability: NVLinks of {} GB/s are assumed",
                      nvlink_bandwidth(0)));
    std::uint32_t to_switches = 0;  // several NVSwitches are one plane
    for (const NvlinkBundle& bundle : gpu.nvlinks) {
      const NvlinkEnd end = end_of(gpu, bundle);
      if (end == NvlinkEnd::kSwitch) to_switches += bundle.links;
      if (end == NvlinkEnd::kCpu)
        draft_.join(node, pci_.cpu_of(gpu.bus_id), LinkKind::kNvlink, pace(gpu, bundle.links));
      if (end == NvlinkEnd::kGpu || end == NvlinkEnd::kUnknown) add_peer(gpu, node, bundle);
    }
    if (to_switches > 0) draft_.join(node, nvswitch(), LinkKind::kNvlink, pace(gpu, to_switches));
    if (gpu.c2c_mb_per_s > 0)
      draft_.join(node, pci_.cpu_of(gpu.bus_id), LinkKind::kC2c,
                  {c2c_bandwidth(gpu.c2c_mb_per_s, 1), assumed_latency(LinkKind::kC2c)});
  }

  static Pace pace(const GpuFacts& gpu, std::uint32_t nvlinks) {
    return {nvlinks * nvlink_bandwidth(capability(gpu)), assumed_latency(LinkKind::kNvlink)};
  }

  /// The way to the peer; the peer tells of the way back.
  void add_peer(const GpuFacts& gpu, NodeId node, const NvlinkBundle& bundle) {
    const auto peer = nodes_.find(bundle.bus_id);
    if (peer == nodes_.end() || peer->second == node)
      draft_.assume_of(gpu.bus_id, "an NVLink to no other GPU of this system: it is left out");
    else
      draft_.link(node, peer->second, LinkKind::kNvlink, pace(gpu, bundle.links));
  }

  /// Older drivers tell only the address at the other end.
  NvlinkEnd end_of(const GpuFacts& gpu, const NvlinkBundle& bundle) {
    if (bundle.end != NvlinkEnd::kUnknown) return bundle.end;
    if (nodes_.contains(bundle.bus_id)) return NvlinkEnd::kGpu;
    const PciFunction* const function = pci_.find(bundle.bus_id);
    if (function == nullptr)
      draft_.assume_of(gpu.bus_id, "NVLinks to an unknown device: an NVSwitch is assumed");
    return function != nullptr && function->role() != PciRole::kNvswitch ? NvlinkEnd::kUnknown
                                                                         : NvlinkEnd::kSwitch;
  }

  NodeId nvswitch() {
    if (!nvswitch_) nvswitch_ = draft_.add(NodeKind::kNvswitch, "nvswitch", {});
    return *nvswitch_;
  }

  PciBus& pci_;
  Draft& draft_;
  std::vector<GpuFacts> facts_;
  bool told_ = false;  // whether NVML answered
  std::string why_not_;
  std::map<std::string, NodeId> nodes_;  // by address
  std::optional<NodeId> nvswitch_;
};

}  // namespace

void detect_gpus(Inquiry& ask, PciBus& pci) { GpuReader(ask, pci).run(); }

}  // namespace tutti::topo::detection
