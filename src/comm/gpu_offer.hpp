// What ranks tell each other about their GPUs, before the GPUs try to reach each other's memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "src/base/blob.hpp"
#include "src/comm/gpu_distance.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Value.
struct GpuOffer {
  std::string problem;  ///< why this rank cannot take part; "" if it can
  std::string bus_id;   ///< of its GPU
  topo::PathKind level = topo::PathKind::kDisconnected;  ///< how far apart GPUs may be
  friend bool operator==(const GpuOffer&, const GpuOffer&) = default;
};

Blob encode(const GpuOffer& offer);
/// Accepts any bytes; errors name `rank`, the sender.
Result<GpuOffer> decode_gpu_offer(std::span<const std::byte> bytes, Rank rank);

/// Why calls have to pass through the host; "" where GPUs may try. The same on all ranks. A level
/// of kSystem or more allows any GPUs, also over a fabric between hosts. GPUs that the topology
/// does not have may try unless the level is kLocal, since nothing is known of them. `offers` and
/// `hosts` by rank.
std::string problem_among(std::span<const GpuOffer> offers, const topo::Topology& topology,
                          std::span<const std::int32_t> hosts);

}  // namespace tutti
