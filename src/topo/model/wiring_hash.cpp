#include "src/topo/model/wiring_hash.hpp"

#include <bit>

#include "src/base/hash.hpp"

namespace tutti::topo {

std::uint64_t wiring_hash(const Topology& topology) {
  std::uint64_t hash = mix(0, topology.hosts().size());
  hash = mix(hash, topology.nodes().size());
  for (const Node& node : topology.nodes())
    hash = mix(mix(hash, static_cast<std::uint64_t>(node.kind)), node.host);
  hash = mix(hash, topology.links().size());
  for (const Link& link : topology.links()) {
    hash = mix(mix(hash, link.from), link.to);
    hash = mix(hash, static_cast<std::uint64_t>(link.kind));
    hash = mix(hash, std::bit_cast<std::uint64_t>(link.bandwidth));
    hash = mix(hash, std::bit_cast<std::uint64_t>(link.latency));
  }
  return hash;
}

}  // namespace tutti::topo
