// A machine, or many, as a value: what there is, what joins it, how fast.
//
// Words used throughout src/topo and src/sim:
//   node    a thing that data comes from, goes to or passes through: a GPU, a CPU socket or NUMA
//           node, a PCI switch, an NVSwitch, a NIC, a network switch.
//   link    one direction between two nodes. What carries data both ways is two links.
//   host    one machine, one memory, one operating system; network switches belong to none.
//   rank    is no part of a topology: one machine hosts many jobs. A Placement says where the ranks
//           of one job live.
//
// Units: bandwidth in GB/s (1e9 bytes per second, one direction, what a program can use of it),
// latency in microseconds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::topo {

enum class NodeKind : std::uint8_t {
  kGpu,       ///< an accelerator with its memory
  kCpu,       ///< a socket, or a NUMA node of one, with its memory
  kPci,       ///< a PCI switch or bridge
  kNvswitch,  ///< all NVSwitches of one domain; they are one plane
  kNic,       ///< a network interface
  kSwitch,    ///< a network switch, or the outside of a NIC
};
inline constexpr int kNodeKinds = 6;

/// In the order of preference that NCCL gives to links.
enum class LinkKind : std::uint8_t {
  kNvlink,  ///< NVLink, XGMI, ICI: between accelerators
  kC2c,     ///< chip to chip: a GPU and its CPU
  kPci,
  kSystem,   ///< between CPUs: UPI, Infinity Fabric, memory
  kNetwork,  ///< from a NIC outwards, and between switches
};
inline constexpr int kLinkKinds = 5;

using NodeId = std::uint32_t;  ///< position in Topology::nodes()
using LinkId = std::uint32_t;  ///< position in Topology::links()
using HostId = std::uint32_t;  ///< position in Topology::hosts()
inline constexpr HostId kNoHost = ~HostId{0};

/// What a format says beyond this page, kept word for word so that nothing is lost on the way
/// through. Keys are not empty, unique and ascending; keys and values are UTF-8.
struct Attribute {
  std::string key;
  std::string value;
  friend bool operator==(const Attribute&, const Attribute&) = default;
};

struct Host {
  std::string name;  ///< unique; 1 to 256 bytes of UTF-8 without control characters
  std::vector<Attribute> attributes;
  friend bool operator==(const Host&, const Host&) = default;
};

struct Node {
  NodeKind kind = NodeKind::kCpu;
  HostId host = kNoHost;  ///< kNoHost for a switch or NVSwitch between hosts
  std::string name;       ///< as a host's; unique within its host, and among those without one
  std::vector<Attribute> attributes;
  friend bool operator==(const Node&, const Node&) = default;
};

/// Of a link: from a kilobyte per second to more than anybody builds. What lies beyond is a slip,
/// and would make times that no clock can count.
inline constexpr double kLeastBandwidth = 1e-6;
inline constexpr double kMostBandwidth = 1e9;
inline constexpr double kMostLatency = 1e9;

struct Link {
  NodeId from = 0;
  NodeId to = 0;
  LinkKind kind = LinkKind::kPci;
  double bandwidth = 0;  ///< GB/s, from kLeastBandwidth to kMostBandwidth
  double latency = 0;    ///< microseconds, from 0 to kMostLatency
  friend bool operator==(const Link&, const Link&) = default;
};

/// The plain data of a topology, before it is checked.
struct Parts {
  std::vector<Host> hosts;
  std::vector<Node> nodes;
  std::vector<Link> links;
  friend bool operator==(const Parts&, const Parts&) = default;
};

/// Checked and immutable. Copies share nothing with their origin; safe to read from any thread.
class Topology {
 public:
  /// Most nodes and links that are accepted: enough for 10,000 GPU hosts.
  static constexpr std::size_t kMostNodes = 1U << 20U;
  static constexpr std::size_t kMostLinks = 1U << 23U;
  /// Most attributes of one host or node.
  static constexpr std::size_t kMostAttributes = 1024;

  /// kInvalidArgument names the part that is wrong: a link to a node that does not exist or to
  /// itself, a bandwidth or latency beyond its range, two nodes of one name, a GPU without a host,
  /// too many parts. Several links between the same two nodes are several cables.
  static Result<Topology> create(Parts parts);

  [[nodiscard]] std::span<const Host> hosts() const { return parts_.hosts; }
  [[nodiscard]] std::span<const Node> nodes() const { return parts_.nodes; }
  [[nodiscard]] std::span<const Link> links() const { return parts_.links; }
  [[nodiscard]] const Node& node(NodeId id) const { return parts_.nodes[id]; }
  [[nodiscard]] const Link& link(LinkId id) const { return parts_.links[id]; }
  [[nodiscard]] const Parts& parts() const { return parts_; }

  /// The links that leave `node`, ascending.
  [[nodiscard]] std::span<const LinkId> links_from(NodeId node) const;
  /// The nodes of `host`, ascending; for kNoHost those without one.
  [[nodiscard]] std::span<const NodeId> nodes_of(HostId host) const;

  /// Of all parts, in their order; equal topologies have equal hashes, on every machine.
  [[nodiscard]] std::uint64_t hash() const { return hash_; }

  friend bool operator==(const Topology& a, const Topology& b) { return a.parts_ == b.parts_; }

 private:
  explicit Topology(Parts parts);  // of parts that were checked

  /// The positions of things in groups, one behind the other.
  struct Grouped {
    std::vector<std::uint32_t> members;
    std::vector<std::uint32_t> first;  // in members, for each group; one more at the end
    [[nodiscard]] std::span<const std::uint32_t> of(std::size_t group) const {
      return std::span(members).subspan(first[group], first[group + 1] - first[group]);
    }
  };
  template <class Things, class GroupOf>
  static Grouped group(const Things& things, std::size_t groups, GroupOf group_of);

  Parts parts_;
  Grouped links_by_source_;
  Grouped nodes_by_host_;  // one group more, for those without a host
  std::uint64_t hash_ = 0;
};

/// Where each rank of a job has its memory: a GPU, or a CPU node. Several ranks may share one.
struct Placement {
  std::vector<NodeId> ranks;
  friend bool operator==(const Placement&, const Placement&) = default;
};

/// One rank on every GPU in the order of nodes, or, where there is no GPU, on every CPU node.
Placement one_rank_each(const Topology& topology);

/// kInvalidArgument where a rank is placed on no GPU or CPU node of the topology.
Status check(const Placement& placement, const Topology& topology);

/// "host/node", or "node" for one without a host.
std::string full_name(const Topology& topology, NodeId node);

/// "gpu", "cpu", "pci", "nvswitch", "nic", "switch"; "nvlink", "c2c", "pci", "system", "network".
std::string_view name_of(NodeKind kind);
std::string_view name_of(LinkKind kind);

/// A topology that was read or detected, and what had to be assumed on the way, a sentence each.
struct Noted {
  Topology topology;
  std::vector<std::string> assumptions;
};

}  // namespace tutti::topo
