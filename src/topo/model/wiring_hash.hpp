// One number that is equal for machines with equal wiring.
#pragma once

#include <cstdint>

#include "src/topo/model/topology.hpp"

namespace tutti::topo {

/// Equal for topologies that are built alike: nodes of the same kinds on the same hosts, by number,
/// joined by links of the same kinds, bandwidths and latencies, all in the same order. Names, PCI
/// addresses, affinity, containers and all other attributes do not count, so that what was measured
/// on one machine holds for its twins. The same on every machine, as Topology::hash() is.
std::uint64_t wiring_hash(const Topology& topology);

}  // namespace tutti::topo
