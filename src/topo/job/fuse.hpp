// Makes one topology of those of a job's hosts, and places the ranks in it.
//
// Each host describes itself; none sees what lies between hosts. Therefore:
//
//   network    assumed: one switch, "network", that never blocks. The outside of each NIC, which is
//              the switch that its host's topology joins it with, has a link to it, as fast as the
//              NICs on it; so has each NIC without an outside, as fast as its attribute `speed`.
//   NIC        assumed where a host has none: of 10 Gbit/s, at its first CPU or GPU
//   names      of hosts get "#2", "#3" and so on where they are taken
//   host_hash  an attribute of every CPU node, as in NCCL's files: which CPUs are one host
//
// A job of one host has no network: its topology is the host's. NVLinks from host to host are not
// looked for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/topo/model/cpu_mask.hpp"
#include "src/topo/model/topology.hpp"

namespace tutti::topo {

/// What fuse() is told of a rank.
struct JobRank {
  HostId host = 0;  ///< by its place among the hosts
  CpuMask cpus;     ///< that it may run on; empty: not known
};

/// A job and the machines that it runs on. Value.
struct JobTopology {
  Topology topology;
  Placement placement;                   ///< of each rank
  std::vector<std::string> assumptions;  ///< a sentence each
  std::uint64_t wiring = 0;              ///< wiring_hash() of the topology
};

/// Ok where `topology` can be a host of fuse(): one host, with a CPU or GPU. kInvalidArgument says
/// what it has instead.
Status check_host(const Topology& topology);

/// `hosts` in the order of their first ranks, `ranks` in theirs. A rank is placed on the CPU node
/// of its host where its CPUs are; where these are on several, on the one with the fewest ranks
/// so far, since the system spreads what runs; on GPUs only where the host has no CPU nodes.
/// Equal arguments give equal results on every machine. kInvalidArgument names the host that
/// check_host() refuses, or a rank of a host that is not there.
Result<JobTopology> fuse(std::span<const Noted> hosts, std::span<const JobRank> ranks);

/// `host` without the attributes that neither fuse() reads nor who looks for the GPUs of ranks.
Noted without_details(const Noted& host);

/// A host of which nothing is known: one CPU. `why` is the assumption.
Noted unknown_host(std::string_view name, std::string_view why);

}  // namespace tutti::topo
