// Paths through a topology: their kind, their bandwidth, their links.
//
// The kinds of paths and their order are NCCL's: users know them from its log and NCCL_P2P_LEVEL.
// The best path between two nodes is of the best kind, then of the fewest links, then the widest.
// (NCCL looks for the fewest links first, then for the widest, and sees the kind of what it found;
// the two differ only where a detour is of a better kind.) A hash chooses among equally good paths,
// so that traffic spreads over them, as routers spread flows (equal-cost multipath, RFC 2992).
//
// Who forwards: switches and PCI switches do, CPUs between their own devices, a NIC between its
// host and the network, a GPU only between two NVLinks (kNvb). Hosts other than the two ends of a
// path forward nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "src/topo/model/topology.hpp"

namespace tutti::topo {

/// How far it is, best first: the worst that lies on the way. After each, NCCL's name.
enum class PathKind : std::uint8_t {
  kLocal,         ///< LOC: the same node
  kNvlink,        ///< NVL: NVLinks, perhaps through an NVSwitch
  kNvlinkRelay,   ///< NVB: two NVLinks, through the memory of the GPU between them
  kC2c,           ///< C2C: the link between a GPU and its CPU
  kPci,           ///< PIX: at most one PCI switch
  kPciSwitches,   ///< PXB: several PCI switches, not the CPU
  kPciC2c,        ///< P2C: PCI on the one side of a CPU, C2C on the other
  kRelay,         ///< PXN: a NIC that a GPU reaches through another GPU, over NVLink
  kHostBridge,    ///< PHB: the CPU (its PCI root complex)
  kSystem,        ///< SYS: the link between two CPUs
  kNetwork,       ///< NET: the network
  kDisconnected,  ///< DIS: there is no way
};
inline constexpr int kPathKinds = 12;

/// NCCL's name: "LOC", "NVL" and so on.
std::string_view name_of(PathKind kind);

/// A way from one node to another. A value.
struct Path {
  PathKind kind = PathKind::kDisconnected;
  double bandwidth = 0;       ///< GB/s, of the narrowest link; kLocalBandwidth for kLocal
  double latency = 0;         ///< microseconds, of all links together
  std::vector<LinkId> links;  ///< in the order of travel; empty for kLocal and kDisconnected
  friend bool operator==(const Path&, const Path&) = default;
};

/// Finds paths of one topology, one at a time and as they are asked for: a search looks at the two
/// hosts and the switches, so that the pairs of a ring of 10,000 GPUs take seconds. It keeps
/// working memory between searches, hence one per thread; the topology must outlive it.
class PathFinder {
 public:
  explicit PathFinder(const Topology& topology);

  /// The best path between two nodes of the topology. Between pairs of nodes with several equally
  /// good ones, and between flows (of any number) of one pair, it spreads over them; equal
  /// arguments give equal paths on every machine.
  Path find(NodeId from, NodeId to, std::uint64_t flow = 0);

  [[nodiscard]] const Topology& topology() const { return *topology_; }

 private:
  /// A node together with how it was reached, which decides what passing through it costs.
  using State = std::uint32_t;

  /// One of the last links of the best ways to a state.
  struct Step {
    LinkId link;
    State from;
    std::uint32_t other;  ///< another step to the same state, or kNoStep
  };
  /// What a search knows of a state.
  struct Reached {
    std::uint64_t search = 0;  ///< the search that wrote this; of no use to others
    double bandwidth = 0;      ///< of the widest way of so many links
    std::uint32_t links = 0;
    std::uint32_t steps = 0;  ///< the first of a list
  };
  struct Query;

  [[nodiscard]] Path relayed(NodeId from, NodeId to, std::uint64_t hash) const;
  std::optional<Path> search(const Query& query);
  void expand(const Query& query, State state);
  void reach(State state, Step step, double bandwidth, std::uint32_t links);
  [[nodiscard]] std::optional<State> arrived(const Query& query, std::uint32_t links) const;
  [[nodiscard]] Path trace(const Query& query, State last) const;

  const Topology* topology_;
  std::uint64_t searches_ = 0;
  std::vector<Reached> reached_;  // by state
  std::vector<Step> steps_;       // of the running search
  std::vector<State> frontier_, next_frontier_;
};

}  // namespace tutti::topo
