#include "src/comm/gpu_offer.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include "src/base/bytes.hpp"
#include "src/base/printable.hpp"
#include "src/base/result.hpp"

namespace tutti {
namespace {

constexpr std::size_t kLongestName = 512;

}  // namespace

Blob encode(const GpuOffer& offer) {
  Blob bytes;
  ByteWriter writer(bytes);
  writer.put(static_cast<std::uint8_t>(offer.level));
  for (const std::string_view text : {offer.bus_id, offer.problem})
    writer.sized(as_bytes(text.substr(0, kLongestName)));
  return bytes;
}

Result<GpuOffer> decode_gpu_offer(std::span<const std::byte> bytes, Rank rank) {
  ByteReader reader(bytes);
  GpuOffer offer;
  const auto level = reader.get<std::uint8_t>();
  offer.bus_id = without_controls(reader.text(kLongestName));
  offer.problem = without_controls(reader.text(kLongestName));
  if (!reader.complete() || level >= topo::kPathKinds)
    return peer_error(Code::kPeerFailed, rank, "rank {} sent a malformed offer of its GPU", rank);
  offer.level = static_cast<topo::PathKind>(level);
  return offer;
}

std::string problem_among(std::span<const GpuOffer> offers, const topo::Topology& topology,
                          std::span<const std::int32_t> hosts) {
  std::vector<std::string> bus_ids;
  topo::PathKind level = topo::PathKind::kDisconnected;
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    if (!offers[rank].problem.empty())
      return fmt::format("rank {} cannot take part: {}", rank, offers[rank].problem);
    bus_ids.push_back(offers[rank].bus_id);
    level = std::min(level, offers[rank].level);
  }
  if (level >= topo::PathKind::kSystem) return "";
  if (level == topo::PathKind::kLocal) return "P2P_LEVEL=LOC";
  const auto farthest = farthest_gpus(topology, bus_ids, hosts);
  if (!farthest || farthest->kind <= level) return "";
  return fmt::format("between the GPUs of ranks {} and {} lies {}, which is beyond P2P_LEVEL={}",
                     farthest->a, farthest->b, name_of(farthest->kind), name_of(level));
}

}  // namespace tutti
