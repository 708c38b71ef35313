#include "src/comm/gpu_distance.hpp"

#include <cstddef>
#include <vector>

#include "src/topo/model/affinity.hpp"

namespace tutti {

std::optional<GpuDistance> farthest_gpus(const topo::Topology& topology,
                                         std::span<const std::string> bus_ids,
                                         std::span<const std::int32_t> hosts) {
  std::vector<topo::NodeId> gpus;
  for (std::size_t rank = 0; rank < bus_ids.size(); ++rank) {
    const auto host = static_cast<topo::HostId>(hosts[rank]);
    if (host >= topology.hosts().size()) return std::nullopt;
    const auto gpu = topo::gpu_at(topology, host, bus_ids[rank]);
    if (!gpu) return std::nullopt;
    gpus.push_back(*gpu);
  }
  topo::PathFinder paths(topology);
  GpuDistance farthest{topo::PathKind::kLocal, 0, 1};
  for (std::size_t a = 0; a < gpus.size(); ++a)
    for (std::size_t b = a + 1; b < gpus.size(); ++b)
      if (const topo::PathKind kind = paths.find(gpus[a], gpus[b]).kind; kind > farthest.kind)
        farthest = {kind, static_cast<Rank>(a), static_cast<Rank>(b)};
  return farthest;
}

topo::PathKind path_kind_of(std::string_view level) {
  for (int kind = 0; kind < topo::kPathKinds; ++kind)
    if (topo::name_of(static_cast<topo::PathKind>(kind)) == level)
      return static_cast<topo::PathKind>(kind);
  return topo::PathKind::kDisconnected;
}

}  // namespace tutti
