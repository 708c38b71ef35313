#include "src/comm/gpu_distance.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tutti {
namespace {

/// Files may have hexadecimal digits in capitals.
bool same_digits(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

std::optional<topo::NodeId> find_gpu(const topo::Topology& topology, topo::HostId host,
                                     const std::string& bus_id) {
  if (host >= topology.hosts().size()) return std::nullopt;
  for (const topo::NodeId id : topology.nodes_of(host)) {
    const topo::Node& node = topology.node(id);
    const bool has_it = std::ranges::any_of(node.attributes, [&](const topo::Attribute& each) {
      return each.key == "busid" && same_digits(each.value, bus_id);
    });
    if (node.kind == topo::NodeKind::kGpu && has_it) return id;
  }
  return std::nullopt;
}

}  // namespace

std::optional<GpuDistance> farthest_gpus(const topo::Topology& topology,
                                         std::span<const std::string> bus_ids,
                                         std::span<const std::int32_t> hosts) {
  std::vector<topo::NodeId> gpus;
  for (std::size_t rank = 0; rank < bus_ids.size(); ++rank) {
    const auto gpu = find_gpu(topology, static_cast<topo::HostId>(hosts[rank]), bus_ids[rank]);
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
