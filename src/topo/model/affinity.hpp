// Says which NIC serves which GPU, and which NICs of several hosts belong together.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/topo/model/paths.hpp"
#include "src/topo/model/topology.hpp"

namespace tutti::topo {

/// The NICs of `node`'s host (a GPU or CPU) from which it gets the most, counting the network links
/// that leave them, and among these the nearest: several where they are as good as each other,
/// ascending; none where no NIC can be reached. NCCL's rule for a rank's local NICs.
std::vector<NodeId> nearest_nics(PathFinder& finder, NodeId node);

/// Those of `nics`, which are of the same host, to which the path from `node` is of the best kind,
/// whatever their speeds: a slow NIC beside a GPU is its own, and others are those of other GPUs.
std::vector<NodeId> shortest_to(PathFinder& finder, NodeId node, std::span<const NodeId> nics);

/// The NICs nearest to the CPUs that a process of `host` may use (its attribute "affinity"). None
/// where these CPUs lie in several places that have different ones, or nothing is known.
std::vector<NodeId> nearest_nics_of_process(PathFinder& finder, HostId host);

/// The GPU of `host` at a PCI address, as in "0000:07:00.0" (its attribute "busid").
std::optional<NodeId> gpu_at(const Topology& topology, HostId host, std::string_view bus_id);

/// Where a NIC is that a path of this kind leads to, in words: "on the PCI switch of gpu3 (PIX)".
/// `from` is the GPU or CPU where the path begins.
std::string describe_place(PathKind kind, const Node& from);

/// The way from a GPU to a NIC of its host through another GPU: over NVLink to the peer that is
/// nearest to the NIC (no further than kPciC2c), and from there. nullopt unless that is wider than
/// the direct way, or the direct way is worse than kRelay. NCCL's PXN: sending to another rail
/// through the GPU that sits on it keeps traffic off the CPU and off the spine switches.
std::optional<Path> relayed_to_nic(PathFinder& finder, NodeId gpu, NodeId nic);

/// NICs of one rail, ascending.
using Rail = std::vector<NodeId>;

/// All NICs by rail: hosts reach each other within a rail without crossing a spine switch, where
/// the network is built so. The rail of a NIC is its position among the NICs of its host, unless
/// its leaf switch joins different positions and no two NICs of one host: then the NICs of that
/// switch are a rail of their own. First the rails by position, ascending, then those by switch.
std::vector<Rail> rails(const Topology& topology);

}  // namespace tutti::topo
