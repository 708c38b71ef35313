// A topology as JSON text, and back.
//
//   {"format": "tutti-topology", "version": 1,
//    "hosts": [{"name": "a", "attributes": {"key": "value"}}, ...],
//    "nodes": [{"kind": "gpu", "host": 0, "name": "gpu0", "attributes": {...}}, ...],
//    "links": [{"from": 0, "to": 1, "kind": "pci", "bandwidth": 24, "latency": 0.5,
//               "duplex": true}, ...]}
//
// Hosts and nodes are numbered from 0 in the order of their lists. A node without "host" belongs to
// none. A link with "duplex" stands for two: itself, and right after it the same one back. Kinds
// are those of name_of(), bandwidths GB/s, latencies microseconds. "attributes" and "duplex" may be
// missing, other keys may not, and no others are accepted: a misspelt one would be lost.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "src/topo/model/topology.hpp"

namespace tutti::topo {

/// Longest text that is read.
inline constexpr std::size_t kMostJsonBytes = std::size_t{256} << 20U;

/// One host, node or link to a line; numbers are written so that they are read as the same ones.
std::string topology_json(const Topology& topology);

/// An equal topology from what topology_json() wrote. kInvalidArgument names line and column where
/// the text is no JSON, and the place ("links[3].bandwidth") where it is no topology.
Result<Topology> parse_topology_json(std::string_view text);

}  // namespace tutti::topo
