// Which NICs each GPU of a host is near to, so which of them carry its calls between hosts.
#pragma once

#include <string>
#include <vector>

#include "src/topo/model/topology.hpp"
#include "tutti/types.hpp"

namespace tutti::tools {

/// Of a GPU, or of a CPU node where no rank has a GPU.
struct NearNics {
  std::string host, node;
  std::vector<Rank> ranks{};        ///< those that live there; empty: not said
  std::vector<std::string> nics{};  ///< none: it has no way out of the host but through others
  std::string path{};               ///< NCCL's name of the kind of path to them, as in "PIX"
  std::string place{};              ///< the same in words: "on the PCI switch of gpu3 (PIX)"
  double bandwidth = 0;             ///< of the path, GB/s
  friend bool operator==(const NearNics&, const NearNics&) = default;
};

/// Of each node with a rank, in the order of the first ranks. GPUs and CPUs are told as the library
/// chooses RDMA ports for them.
std::vector<NearNics> near_nics(const topo::Topology& topology, const topo::Placement& placement);

/// Of a host that tells nothing of ranks: of its GPUs, or of its CPU nodes without one.
std::vector<NearNics> near_nics_of_host(const topo::Topology& topology);

/// A table. One host alone where all have the same. Empty where nothing has a NIC.
std::string text_of(const std::vector<NearNics>& rows);

}  // namespace tutti::tools
