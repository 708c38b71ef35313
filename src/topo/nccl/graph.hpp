// NCCL's graph files: the channels that NCCL found (NCCL_GRAPH_DUMP_FILE), or that the user gives
// it (NCCL_GRAPH_FILE).
//
//   <graphs version="1">
//     <graph id="0" pattern="4" crossnic="0" nchannels="2" speedintra="20" speedinter="20" ...>
//       <channel>
//         <net dev="0"/>
//         <gpu dev="3"/>
//         <gpu dev="2"/>
//         <net dev="0"/>
//
// A channel is a path through one host: the NIC where data enters, the GPUs in order, the NIC where
// it leaves. A job of one host has no NICs there. The two ends of a ring are joined. Numbers stay
// in the words of the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/topo/model/topology.hpp"
#include "tutti/error.hpp"

namespace tutti::topo {

/// The numbers are NCCL's.
enum class GraphPattern : std::uint8_t {
  kBalancedTree = 1,   ///< parent and children on two GPUs
  kSplitTree = 2,      ///< parent on one GPU, children on another
  kTree = 3,           ///< parent and children on one GPU
  kRing = 4,           ///< enters by one NIC, leaves by another or the same
  kNvls = 5,           ///< NVLink SHARP
  kCollnetDirect = 6,  ///< every GPU beside a NIC sends to the network itself
};

/// A step of a channel.
struct GraphStop {
  enum class Kind : std::uint8_t { kNet, kGpuByDev, kGpuByRank };
  Kind kind = Kind::kGpuByDev;
  /// Of a NIC or GPU, its `dev`, which for a NIC may carry a host in its upper bits; or a rank.
  std::int64_t number = 0;
  std::string text;               ///< the number as the file writes it; "": in decimal
  std::vector<Attribute> others;  ///< what the element says beyond its number
  friend bool operator==(const GraphStop&, const GraphStop&) = default;
};

struct Graph {
  std::int64_t id = 0;  ///< 0 ring, 1 tree, 2 collnet chain, 3 NVLS, 4 collnet direct
  GraphPattern pattern = GraphPattern::kRing;
  /// Every other attribute, word for word: crossnic, speedintra and speedinter in GB/s of a
  /// channel, latencyinter, typeintra and typeinter as NCCL's kinds of path, samechannels.
  std::vector<Attribute> attributes;
  std::vector<std::vector<GraphStop>> channels;
  friend bool operator==(const Graph&, const Graph&) = default;
};

/// Any bytes may be read. kInvalidArgument names line and column: text that is no XML, a missing or
/// wrong value, an unknown element, nchannels that is not the number of channels (NCCL leaves
/// nchannels="0" where it found none), a pattern, kind of path or walk that NCCL does not have.
/// The order of attributes is not kept.
Result<std::vector<Graph>> read_nccl_graph(std::string_view text);

std::string write_nccl_graph(const std::vector<Graph>& graphs);

/// kInvalidArgument where a channel has a GPU or NIC that is not on any host of `topology`, by the
/// attributes `dev` and `rank` of its nodes, or the same GPU twice.
Status check(const std::vector<Graph>& graphs, const Topology& topology);

}  // namespace tutti::topo
