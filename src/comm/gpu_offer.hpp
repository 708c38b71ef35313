// What ranks tell each other of their GPUs before these try to reach each other's memory.
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
/// Hostile-safe; `rank` is named in errors.
Result<GpuOffer> decode_gpu_offer(std::span<const std::byte> bytes, Rank rank);

/// Why calls have to pass through the host, the same on all ranks; "" where GPUs may try. With
/// kSystem or more any may, over a fabric that joins hosts too; and those that the topology does
/// not have, since nothing is known of them, unless the level is kLocal. `offers` and `hosts` by
/// rank.
std::string problem_among(std::span<const GpuOffer> offers, const topo::Topology& topology,
                          std::span<const std::int32_t> hosts);

}  // namespace tutti
