// Topologies as text: a tree, and matrices of paths.
#pragma once

#include <string>
#include <vector>

#include "tools/topo/arrangement.hpp"
#include "tools/topo/measured.hpp"

namespace tutti::tools {

/// How links to nodes outside of a host are told: by the names of these, or by their number.
enum class Ends { kNamed, kCounted };

/// What hangs from what in one host, a line each with the links of every node; equal texts for
/// hosts that are built alike: with kNamed on the same switches, with kCounted on any.
std::string tree_of(const Arrangement& arrangement, topo::HostId host, Ends ends = Ends::kNamed);

/// All hosts, those that are alike once; the network between them; measurements, if there are any;
/// then the assumptions.
std::string tree(const Arrangement& arrangement, const std::vector<std::string>& assumptions,
                 const std::vector<Measured>& measured);

/// Most rows of a matrix; of a larger topology the first are shown, and the text says so.
inline constexpr std::size_t kMostMatrixRows = 256;

/// What a cell of a matrix says of the best path.
enum class Cells { kKinds, kBandwidths };

/// GPUs, NICs and CPUs in rows and columns, as `nvidia-smi topo -m` shows them, with their CPUs and
/// NUMA nodes where they are known, and the legend.
std::string matrix(const Arrangement& arrangement, Cells cells);

}  // namespace tutti::tools
