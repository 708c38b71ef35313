// Arranges a topology for readers: trees of devices, and the links across them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/topo/model/topology.hpp"

namespace tutti::tools {

/// All links of one kind between two nodes, both ways.
struct Wire {
  topo::NodeId a = 0;
  topo::NodeId b = 0;  ///< greater than a
  topo::LinkKind kind = topo::LinkKind::kPci;
  double bandwidth = 0;  ///< GB/s one way, the better one, to six digits; 0: cut
  double whole = 0;      ///< what it is in a machine where nothing is slowed
  [[nodiscard]] topo::NodeId other(topo::NodeId end) const { return end == a ? b : a; }
  [[nodiscard]] bool is_slowed() const { return bandwidth < whole; }
};

/// Every host as a forest. Its roots are the CPUs or, where CPUs hang around one memory, that
/// memory; below them what PCI and C2C links lead to; then what hangs from nothing. The topology
/// must outlive it.
class Arrangement {
 public:
  static constexpr topo::NodeId kNone = ~topo::NodeId{0};
  /// Nodes that hang deeper are roots of their own.
  static constexpr int kMostDepth = 16;

  explicit Arrangement(const topo::Topology& topology) : Arrangement(topology, topology) {}
  /// `whole` has the same nodes, and all links at their full bandwidth: what is slower or missing
  /// in `topology` is a slowed wire.
  Arrangement(const topo::Topology& topology, const topo::Topology& whole);

  [[nodiscard]] const topo::Topology& topology() const { return *topology_; }
  [[nodiscard]] std::span<const topo::NodeId> roots(topo::HostId host) const {
    return roots_[host];
  }
  [[nodiscard]] std::span<const topo::NodeId> children(topo::NodeId node) const {
    return children_[node];
  }
  [[nodiscard]] topo::NodeId parent(topo::NodeId node) const { return parent_[node]; }
  /// The topmost of the nodes that `node` hangs from; itself for a root.
  [[nodiscard]] topo::NodeId root_of(topo::NodeId node) const;

  /// Ascending by their ends.
  [[nodiscard]] std::span<const Wire> wires() const { return wires_; }
  /// Positions in wires().
  [[nodiscard]] std::span<const std::uint32_t> wires_at(topo::NodeId node) const {
    return wires_at_[node];
  }
  /// Whether the wire joins a node to its parent.
  [[nodiscard]] bool in_tree(const Wire& wire) const {
    return parent_[wire.a] == wire.b || parent_[wire.b] == wire.a;
  }
  /// Whether a node stands for whatever lies outside of one NIC.
  [[nodiscard]] bool is_outside(topo::NodeId node) const;
  /// Whether a kPci node is the memory that CPUs are around.
  [[nodiscard]] bool is_memory(topo::NodeId node) const;

 private:
  void gather_wires(const topo::Topology& whole);
  void grow(topo::HostId host);
  void hang(std::vector<topo::NodeId> above, auto may_hang);

  const topo::Topology* topology_;
  std::vector<Wire> wires_;
  std::vector<std::vector<std::uint32_t>> wires_at_;
  std::vector<std::vector<topo::NodeId>> roots_;
  std::vector<std::vector<topo::NodeId>> children_;
  std::vector<topo::NodeId> parent_;
  std::vector<int> depth_;  // of nodes that have been placed; -1 for others
};

/// The value of an attribute; "" where there is none of this name.
std::string_view attribute(const topo::Node& node, std::string_view key);

/// "8 GPUs, 2 CPUs": the nodes by kind, with `memory` counted as none of them.
std::string count_of_nodes(const Arrangement& arrangement, std::span<const topo::NodeId> nodes);
/// "1 GPU", "3 switches".
std::string counted(std::size_t count, topo::NodeKind kind);

/// "NVLink", or "xGMI" between AMD's GPUs, "PCI", "system" and so on, as a reader knows them.
std::string_view title_of(topo::LinkKind kind, bool of_amd);
/// Whether a GPU is one of AMD's.
bool is_of_amd(const topo::Node& gpu);
/// Of a GPU: "sm 80", "gfx942"; "" where it is not known.
std::string processor_of(const topo::Node& gpu);

/// What is known of a node beside its name: "NUMA 0, CPUs 0-47", "sm 80"; may be empty.
std::string details_of(const Arrangement& arrangement, topo::NodeId node);
/// The logical CPUs of a CPU node as a list, "0-47,96"; "" where they are not known.
std::string cpus_of(const topo::Node& cpu);

/// GB/s out of a NIC that its attributes tell, for one that has no network link; 0 for others.
double told_network_bandwidth(const Arrangement& arrangement, topo::NodeId nic);

/// GB/s with four digits or all before the point: "0.125", "24", "370.8", "409600".
std::string gigabytes(double bandwidth);
/// Whether a link stands for none: what formats give to a device that hangs from its CPU directly.
bool is_unlimited(topo::LinkKind kind, double bandwidth);
/// "24 GB/s", or "no limit".
std::string speed(topo::LinkKind kind, double bandwidth);
/// The same of a wire, "12 GB/s (slowed to 50 %)" or "cut (24 GB/s)" where it is not whole.
std::string speed(const Wire& wire);

}  // namespace tutti::tools
