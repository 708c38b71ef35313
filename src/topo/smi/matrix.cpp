#include "src/topo/smi/matrix.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/result.hpp"
#include "src/topo/model/bandwidths.hpp"
#include "src/topo/model/draft.hpp"
#include "src/topo/model/host_parts.hpp"
#include "src/topo/smi/matrix_text.hpp"

namespace tutti::topo {
namespace smi {
namespace {

using Index = std::size_t;  // of a device in the matrix

/// Sets of devices, each with one of them for all.
class Sets {
 public:
  explicit Sets(std::size_t count) : of_(count) { std::iota(of_.begin(), of_.end(), Index{0}); }
  Index find(Index device) {
    while (of_[device] != device) device = of_[device] = of_[of_[device]];
    return device;
  }
  void join(Index a, Index b) { of_[std::max(find(a), find(b))] = std::min(find(a), find(b)); }

 private:
  std::vector<Index> of_;
};

class Builder {
 public:
  explicit Builder(const Matrix& matrix)
      : devices_(matrix.devices),
        one_switch_(devices_.size()),
        switches_(devices_.size()),
        one_node_(devices_.size()) {}

  Result<Noted> run() && {
    gather();
    TUTTI_TRY(check_sets());
    TUTTI_TRY(add_cpus());
    for (Index i = 0; i < devices_.size(); ++i) add_device(i);
    add_nvlinks();
    if (!draft_.nodes(NodeKind::kPci).empty())
      draft_.assume("the matrix shows which PCI switches must be there, not all that are");
    draft_.assume("nvidia-smi tells no latencies: typical ones are assumed");
    return std::move(draft_).finish();
  }

 private:
  void gather() {
    for_each_pair([&](Index a, Index b, const Cell& cell) {
      if (cell.nvlinks > 0) return;
      if (cell.distance <= Distance::kSwitch) one_switch_.join(a, b);
      if (cell.distance <= Distance::kSwitches) switches_.join(a, b);
      if (cell.distance < Distance::kSystem) one_node_.join(a, b);
    });
    join_unknown();
  }

  /// GPUs that NVLinks join say nothing of their NUMA nodes. Those of which nothing else does
  /// either are of one, unless their CPUs or what is near them tell them apart.
  void join_unknown() {
    std::vector<std::vector<bool>> apart(devices_.size(), std::vector<bool>(devices_.size()));
    for_each_pair([&](Index a, Index b, const Cell& cell) {
      if (cell.nvlinks > 0 || cell.distance < Distance::kSystem) return;
      apart[one_node_.find(a)][one_node_.find(b)] = true;
      apart[one_node_.find(b)][one_node_.find(a)] = true;
    });
    bool guessed = false;
    for_each_pair([&](Index a, Index b, const Cell& cell) {
      const Index one = one_node_.find(a), other = one_node_.find(b);
      const bool told = devices_[a].numa >= 0 || devices_[b].numa >= 0;
      if (cell.nvlinks == 0 || told || one == other || apart[one][other]) return;
      if (devices_[a].cpus != devices_[b].cpus) return;
      guessed = guessed || devices_[a].cpus.empty();
      one_node_.join(one, other);
      const Index joined = one_node_.find(one);
      for (Index i = 0; i < devices_.size(); ++i) {
        const bool either = apart[one][i] || apart[other][i];
        apart[joined][i] = either;
        apart[i][joined] = either;
      }
    });
    if (guessed)
      draft_.assume("GPUs that NVLinks join and of which no CPU is told count as of one NUMA node");
  }

  /// What follows from other pairs is not denied by this one.
  Status check_sets() {
    Status sound = ok_status();
    for_each_pair([&](Index a, Index b, const Cell& cell) {
      if (!sound || cell.nvlinks > 0) return;
      const bool nearer =
          (cell.distance > Distance::kSwitch && one_switch_.find(a) == one_switch_.find(b)) ||
          (cell.distance > Distance::kSwitches && switches_.find(a) == switches_.find(b)) ||
          (cell.distance == Distance::kSystem && one_node_.find(a) == one_node_.find(b));
      if (nearer)
        sound = error_in(devices_[a].line,
                         fmt::format("{} and {} are nearer to each other by way of other devices "
                                     "than their own cell says",
                                     devices_[a].name, devices_[b].name));
    });
    return sound;
  }

  /// The NUMA node of each set of devices that are within one.
  Status add_cpus() {
    std::map<Index, int> told;  // by set
    for (Index i = 0; i < devices_.size(); ++i) {
      const Device& device = devices_[i];
      if (device.numa < 0) continue;
      const auto [known, first] = told.try_emplace(one_node_.find(i), device.numa);
      if (!first && known->second != device.numa)
        return error_in(device.line, fmt::format("{} is of NUMA node {}, and what is near it of {}",
                                                 device.name, device.numa, known->second));
    }
    int next = 0;
    for (const auto& [set, numa] : told) next = std::max(next, numa + 1);
    std::map<int, CpuMask> cpus;
    for (Index i = 0; i < devices_.size(); ++i) {
      const auto [known, guessed] = told.try_emplace(one_node_.find(i), next);
      if (guessed) ++next;
      numa_.push_back(known->second);
      CpuMask& its = cpus[known->second];
      if (its.empty()) its = devices_[i].cpus;
    }
    for (const auto& [numa, mask] : cpus) {
      std::vector<Attribute> words = {{"numaid", std::to_string(numa)}};
      if (!mask.empty()) words.push_back({"affinity", mask.mask()});
      cpus_[numa] = draft_.add(NodeKind::kCpu, fmt::format("cpu{}", numa), std::move(words));
    }
    join_cpus(draft_, {});
    return ok_status();
  }

  void add_device(Index i) {
    const Device& device = devices_[i];
    const std::string name =
        device.is_gpu ? fmt::format("gpu{}", device.name.substr(3)) : device.name;
    const NodeId node = draft_.add(device.is_gpu ? NodeKind::kGpu : NodeKind::kNic, name, {});
    nodes_.push_back(node);
    draft_.join(node, above(i), LinkKind::kPci, pci_pace(name));
  }

  /// What a device hangs from: its PCI switch, or its CPU.
  NodeId above(Index i) {
    const NodeId cpu = cpus_.at(numa_[i]);
    const bool has_upper = is_shared(switches_, i);
    const NodeId upper = has_upper ? pci_switch(upper_, switches_.find(i), cpu) : cpu;
    const bool several = has_upper && has_several_switches(i);
    if (!several) return upper;
    return pci_switch(lower_, one_switch_.find(i), upper);
  }

  bool is_shared(Sets& sets, Index i) {
    for (Index other = 0; other < devices_.size(); ++other)
      if (other != i && sets.find(other) == sets.find(i)) return true;
    return false;
  }
  bool has_several_switches(Index i) {
    for (Index other = 0; other < devices_.size(); ++other)
      if (switches_.find(other) == switches_.find(i) &&
          one_switch_.find(other) != one_switch_.find(i))
        return true;
    return false;
  }

  NodeId pci_switch(std::map<Index, NodeId>& known, Index set, NodeId above) {
    const auto found = known.find(set);
    if (found != known.end()) return found->second;
    const std::string name = fmt::format("pci{}", upper_.size() + lower_.size());
    const NodeId node = draft_.add(NodeKind::kPci, name, {});
    draft_.join(node, above, LinkKind::kPci, pci_pace(name));
    return known[set] = node;
  }

  Pace pci_pace(std::string_view name) { return assumed_pci_pace(draft_, name); }

  /// Links of pairs, or to NVSwitches where a GPU cannot have so many for itself.
  void add_nvlinks() {
    std::map<Index, int> total;
    int of_a_pair = 0;
    for_each_pair([&](Index a, Index b, const Cell& cell) {
      if (cell.nvlinks == 0) return;
      total[a] += cell.nvlinks;
      total[b] += cell.nvlinks;
      of_a_pair = std::max(of_a_pair, cell.nvlinks);
    });
    if (total.empty()) return;
    const int most =
        std::ranges::max_element(total, {}, [](const auto& entry) { return entry.second; })->second;
    constexpr int kMostOfAGpu = 18;  // of all so far
    const bool switched = most > kMostOfAGpu;
    const double each = nvlink_bandwidth(capability_with(switched ? of_a_pair : most));
    const auto pace = [&](int links) {
      return Pace{links * each, assumed_latency(LinkKind::kNvlink)};
    };
    if (!switched) {
      for_each_pair([&](Index a, Index b, const Cell& cell) {
        if (cell.nvlinks > 0)
          draft_.join(nodes_[a], nodes_[b], LinkKind::kNvlink, pace(cell.nvlinks));
      });
      return;
    }
    draft_.assume("pairs of GPUs have more NVLinks than a GPU has in all: they lead to NVSwitches");
    const NodeId plane = draft_.add(NodeKind::kNvswitch, "nvswitch", {});
    for (const auto& [gpu, links] : total)
      draft_.join(nodes_[gpu], plane, LinkKind::kNvlink, pace(of_a_pair));
  }

  /// Of GPUs with so many NVLinks each.
  int capability_with(int links) {
    constexpr std::pair<int, int> kCapabilities[] = {{18, 90}, {12, 80}, {6, 70}, {4, 60}};
    for (const auto& [most, capability] : kCapabilities)
      if (links == most) {
        draft_.assume(fmt::format("GPUs with {} NVLinks count as sm {}", links, capability));
        return capability;
      }
    draft_.assume(fmt::format("an NVLink counts as {} GB/s", nvlink_bandwidth(0)));
    return 0;
  }

  template <class Visit>
  void for_each_pair(Visit&& visit) const {
    for (Index a = 0; a < devices_.size(); ++a)
      for (Index b = 0; b < a; ++b) visit(a, b, devices_[a].to[b]);
  }

  const std::vector<Device>& devices_;
  Sets one_switch_;  // PIX
  Sets switches_;    // PXB or nearer
  Sets one_node_;    // nearer than SYS
  Draft draft_;
  std::vector<int> numa_;                  // by device
  std::vector<NodeId> nodes_;              // by device
  std::map<int, NodeId> cpus_;             // by NUMA node
  std::map<Index, NodeId> upper_, lower_;  // PCI switches, by set
};

}  // namespace
}  // namespace smi

Result<Noted> read_smi_matrix(std::string_view text) {
  TUTTI_ASSIGN(const smi::Matrix matrix, smi::parse_matrix(text));
  return smi::Builder(matrix).run();
}

}  // namespace tutti::topo
