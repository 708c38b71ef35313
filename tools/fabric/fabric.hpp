// Copies of one host joined by a network of switches and cables, none of which need exist.
//
// Words used throughout tools/fabric:
//   unit      what is copied: a host, or several with what lies between them (a rack)
//   port      a NIC of a unit, or one plane's share of it; unit h has the ports of rails 0, 1, ...
//   cable     a link in each direction. All cables of a fabric are as wide as the widest port, or
//             what `link` says; parallel ones stay apart, because one flow takes one of them
//   place     of direct networks (torus, Hamming mesh, BCube, DCell, ring): where a router stands.
//             Each unit has one; if its GPUs have the attribute `ici`, each GPU has one
//
// The units of a fabric are "h0", "h1" and so on, its switches "leaf3", "spine0", "core1",
// "group2.router0", "row4"; where a fabric has several planes or rails of its own they stand in
// front ("plane1.leaf3"). Everything is the same on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/topo/model/topology.hpp"

namespace tutti::topo {

enum class FabricKind : std::uint8_t {
  kFatTree,        ///< ports in order of hosts below leaves (Al-Fares et al., SIGCOMM 2008)
  kRailOptimised,  ///< the same, but NIC i of nearby hosts on one leaf (NVIDIA DGX SuperPOD)
  kRailOnly,       ///< a fat tree for each rail, and nothing between them (Wang et al., 2307.12169)
  kDualPlane,  ///< rail-optimised trees, each with a share of every NIC (Qian et al., HPN, 2024)
  kDragonfly,  ///< complete groups of routers, joined completely (Kim et al., ISCA 2008)
  kDragonflyPlus,  ///< groups of leaves and spines instead (Shpiner et al., HiPINEB 2017)
  kTorus,          ///< a grid of any number of dimensions, with or without its wrap-around
  kHammingMesh,    ///< boards in rows and columns (Hoefler et al., SC 2022)
  kBcube,          ///< servers on switches of several levels (Guo et al., SIGCOMM 2009)
  kDcell,          ///< cells of cells, completely joined (Guo et al., SIGCOMM 2008)
  kJellyfish,      ///< a random regular graph of switches (Singla et al., NSDI 2012)
  kBigraph,        ///< two sides of switches, both with hosts (Dong et al., EFLOPS, HPCA 2020)
  kOpticalRing,    ///< no switch: each place joined with the next (Khani et al., SiP-ML, 2021)
};
inline constexpr int kFabricKinds = 13;

/// "fat-tree", "rail-optimised" and so on.
std::string_view name_of(FabricKind kind);

/// A fabric, as plain data. What a member means, which kinds have it and its range say
/// fabric_parameters(); kinds that do not have one ignore it.
struct FabricShape {
  FabricKind kind = FabricKind::kFatTree;
  std::uint32_t hosts = 1;  ///< copies of the unit

  double link = 0;       ///< GB/s of a cable; 0: of the widest port
  double latency = 0.6;  ///< microseconds of a cable
  std::uint32_t radix = 64;
  std::uint32_t tiers = 0;
  double oversubscription = 1;
  double core_oversubscription = 1;
  std::uint32_t planes = 2;
  std::uint32_t groups = 0;
  std::uint32_t routers = 8;
  std::uint32_t spines = 8;
  std::uint32_t terminals = 4;
  std::uint32_t global = 4;
  std::uint32_t degree = 8;
  std::uint32_t seed = 1;
  std::uint32_t levels = 2;
  std::uint32_t ports = 4;
  std::uint32_t wrap = 1;
  /// Groups for which a switch adds at a time (src/topo/model/aggregation.hpp); 0: it adds nothing.
  std::uint32_t aggregation = 0;
  std::uint32_t operations = 1;  ///< as Aggregation::outstanding
  double adding_latency = 0;     ///< as Aggregation::latency
  double window = 0;             ///< as Aggregation::window
  std::vector<std::uint32_t> sizes;
  std::vector<std::uint32_t> board = {2, 2};

  friend bool operator==(const FabricShape&, const FabricShape&) = default;
};

/// One member of FabricShape: its name in text and JSON, its range, its meaning in half a sentence.
struct FabricParameter {
  std::string_view name;
  std::variant<double FabricShape::*, std::uint32_t FabricShape::*,
               std::vector<std::uint32_t> FabricShape::*>
      member;
  double least = 0;
  double most = 0;          ///< of each number of a list
  std::uint32_t kinds = 0;  ///< bit k: FabricKind k has it
  std::string_view meaning;

  [[nodiscard]] bool belongs_to(FabricKind kind) const {
    return (kinds >> static_cast<unsigned>(kind) & 1U) != 0;
  }
};
std::span<const FabricParameter> fabric_parameters();

/// Most units of a fabric, and most numbers of a list.
inline constexpr std::uint32_t kMostFabricHosts = 65536;
inline constexpr std::size_t kMostFabricSizes = 6;

/// kInvalidArgument names a parameter beyond its range, with value and limits.
Status check(const FabricShape& shape);

/// `shape.hosts` copies of `unit` and the network that joins them. NICs say how fast they are by
/// their attribute `speed` in Mbit/s, as in NCCL's files; GPUs with links of their own, such as
/// TPUs, by `ici`, GB/s of one link in one direction. A host's attribute `block` ("2x2") says how
/// its GPUs lie in a torus; without it they lie in a row.
///
/// kInvalidArgument: what check() says, a unit without NICs or with one that says no speed or has a
/// cable, numbers of hosts that do not fit the shape ("a DCell of 4 ports and 1 level has 20
/// places"), too few ports of the switches, more parts than a topology may have.
Result<Topology> join(const Topology& unit, const FabricShape& shape);

}  // namespace tutti::topo
