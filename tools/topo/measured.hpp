// Results of `tutti bench --json`, shown beside the topology that they were measured on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/topo/model/topology.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {

/// The best row of one collective in one run.
struct Measured {
  std::string collective;
  std::uint64_t ranks = 0;
  std::uint64_t hosts = 0;
  std::uint64_t bytes = 0;   ///< of the row
  std::string algorithm;     ///< may be empty
  double bus_bandwidth = 0;  ///< GB/s
};

/// From the text of such a file, `path` being its name in errors; collectives in the order of the
/// file. kInvalidArgument where it is none, or ran on more hosts than the topology has.
Result<std::vector<Measured>> read_measured(const std::string& path, std::string_view text,
                                            const topo::Topology& topology);

/// GB/s that NICs carry out of the host that has the least of it; 0 for a single host.
double network_of_a_host(const topo::Topology& topology);

/// "all_reduce, 4 ranks on 2 hosts: 11.2 GB/s bus bandwidth (8 MiB, ring), 90 % of the network of a
/// host".
std::string sentence(const Measured& measured, const topo::Topology& topology);

}  // namespace tutti::tools
