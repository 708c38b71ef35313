// Writes NCCL's topology files: what the nodes of a topology from elsewhere lack.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "src/topo/model/bandwidths.hpp"
#include "src/topo/nccl/format.hpp"
#include "src/topo/nccl/writer.hpp"

namespace tutti::topo::nccl {
namespace {

struct PciLink {
  const char* speed;
  int width;
};

/// The generation and width that come closest to a bandwidth, the wider one on a tie.
PciLink closest_pci_link(double bandwidth) {
  constexpr std::array kSpeeds = {"2.5 GT/s PCIe",  "5.0 GT/s PCIe",  "8.0 GT/s PCIe",
                                  "16.0 GT/s PCIe", "32.0 GT/s PCIe", "64.0 GT/s PCIe"};
  PciLink best = {kSpeeds[0], 16};
  double least_error = std::numeric_limits<double>::infinity();
  for (const int width : {16, 8, 4, 2, 1})
    for (const char* speed : kSpeeds) {
      const double error = std::abs(bandwidth - *pci_bandwidth(speed, width));
      if (error >= least_error) continue;
      least_error = error;
      best = {speed, width};
    }
  return best;
}

class Deriver {
 public:
  Deriver(const Topology& topology, const Tree& tree) : topology_(topology), tree_(tree) {
    std::vector<std::array<int, kNodeKinds>> counts(topology.hosts().size());
    for (const Node& node : topology.nodes())
      numbers_.push_back(
          node.host == kNoHost ? 0 : counts[node.host][static_cast<std::size_t>(node.kind)]++);
  }

  [[nodiscard]] std::vector<Attribute> words(NodeId id) const {
    const Node& node = topology_.node(id);
    std::vector<Attribute> all;
    if (node.kind == NodeKind::kCpu) {
      all.push_back({"numaid", std::to_string(numbers_[id])});
      if (topology_.hosts().size() > 1)
        all.push_back({"host_hash", fmt::format("{:#x}", node.host + 1)});
    }
    if (node.kind == NodeKind::kPci) add_function(id, "0x060400", all);
    if (node.kind == NodeKind::kNic) {
      add_function(id, "0x020000", all);
      add_net(id, all);
    }
    if (node.kind == NodeKind::kGpu) {
      add_function(id, "0x030200", all);
      add_gpu(id, all);
    }
    return all;
  }

 private:
  [[nodiscard]] const std::string* find(NodeId id, std::string_view key) const {
    const auto& attributes = topology_.node(id).attributes;
    const auto found = std::ranges::find(attributes, key, &Attribute::key);
    return found == attributes.end() ? nullptr : &found->value;
  }

  /// The node's own, if it is one, or one made from its number, in a domain that machines do not
  /// have.
  [[nodiscard]] std::string bus_id(NodeId id) const {
    const std::string* own = find(id, "busid");
    if (own != nullptr && parse_bus_id(*own)) return *own;
    return fmt::format("{:04x}:{:02x}:00.0", kMadeUpDomain + id / 256, id % 256);
  }

  void add_function(NodeId id, const char* pci_class, std::vector<Attribute>& all) const {
    all.push_back({"busid", bus_id(id)});
    all.push_back({"class", pci_class});
    if (!tree_.uplinks[id]) return;
    const PciLink link = closest_pci_link(topology_.link(*tree_.uplinks[id]).bandwidth);
    all.push_back({"link_speed", link.speed});
    all.push_back({"link_width", std::to_string(link.width)});
  }

  void add_net(NodeId id, std::vector<Attribute>& all) const {
    all.push_back({"name", topology_.node(id).name});
    all.push_back({"dev", std::to_string(numbers_[id])});
    double bandwidth = 0;
    for (const LinkId link : topology_.links_from(id))
      if (topology_.link(link).kind == LinkKind::kNetwork)
        bandwidth += topology_.link(link).bandwidth;
    if (bandwidth > 0 && bandwidth < 100'000)
      all.push_back({"speed", std::to_string(std::llround(bandwidth * 8000))});
  }

  void add_gpu(NodeId id, std::vector<Attribute>& all) const {
    all.push_back({"dev", std::to_string(numbers_[id])});
    int sm = kAssumedSm;
    if (const std::string* own = find(id, "sm"))
      std::from_chars(own->data(), own->data() + own->size(), sm);  // or stays, if it is no number
    all.push_back({"sm", std::to_string(sm)});
    std::size_t child = 0;
    for (const LinkId link : topology_.links_from(id)) {
      const std::string text = child_of_gpu(topology_.link(link), sm);
      if (!text.empty()) all.push_back({key_of_child("gpu", child++), text});
    }
  }

  /// "" for a link that is no child of <gpu>.
  [[nodiscard]] std::string child_of_gpu(const Link& link, int sm) const {
    if (link.kind == LinkKind::kC2c)
      return fmt::format(R"(<c2c bw="{}" count="1"/>)",
                         std::clamp(std::llround(link.bandwidth * 1000), 1LL, kMostMbPerS));
    if (link.kind != LinkKind::kNvlink) return "";
    const NodeKind kind = topology_.node(link.to).kind;
    const bool to_gpu = kind == NodeKind::kGpu;
    const char* target_class = kind == NodeKind::kCpu ? "0x068001" : "0x068000";
    const double each = nvlink_bandwidth(sm);
    return fmt::format(R"(<nvlink target="{}" count="{}" tclass="{}"/>)",
                       to_gpu ? bus_id(link.to) : "fffffff:ff:ff.0",
                       std::clamp(std::llround(link.bandwidth / each), 1LL, 4096LL),
                       to_gpu ? "0x030200" : target_class);
  }

  static constexpr NodeId kMadeUpDomain = 0x1000;
  static constexpr long long kMostMbPerS = 1'000'000'000;

  const Topology& topology_;
  const Tree& tree_;
  std::vector<int> numbers_;  // of each node among those of its kind on its host
};

}  // namespace

std::vector<std::vector<Attribute>> derive_words(const Topology& topology, const Tree& tree) {
  const Deriver deriver(topology, tree);
  std::vector<std::vector<Attribute>> all;
  for (NodeId id = 0; id < topology.nodes().size(); ++id) all.push_back(deriver.words(id));
  return all;
}

}  // namespace tutti::topo::nccl
