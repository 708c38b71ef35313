// How far the GPUs of a communicator's ranks are apart.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/topo/job/fuse.hpp"
#include "src/topo/model/paths.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Two ranks, and how far apart their GPUs are. Value.
struct GpuDistance {
  topo::PathKind kind = topo::PathKind::kLocal;
  Rank a = 0, b = 0;
  friend bool operator==(const GpuDistance&, const GpuDistance&) = default;
};

/// The two ranks whose GPUs are the farthest apart. `bus_ids`: of each rank's GPU ("0000:07:00.0"),
/// at least two. `hosts`: of each rank, numbered as in the topology. Nothing where the topology
/// does not have one of the GPUs.
std::optional<GpuDistance> farthest_gpus(const topo::Topology& topology,
                                         std::span<const std::string> bus_ids,
                                         std::span<const std::int32_t> hosts);

/// "NVL" and so on, of TUTTI_P2P_LEVEL.
topo::PathKind path_kind_of(std::string_view level);

}  // namespace tutti
