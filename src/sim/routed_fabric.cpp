#include "src/sim/routed_fabric.hpp"

namespace tutti::sim {

RoutedFabric::RoutedFabric(Fabric& below, std::span<const LanePath> paths) : below_(below) {
  for (const LanePath& path : paths) paths_[{path.from, path.to, path.lane}] = path.links;
}

Result<std::vector<LinkId>> RoutedFabric::path(Rank from, Rank to, Lane lane) {
  const auto own = paths_.find({from, to, lane});
  if (own == paths_.end()) return below_.path(from, to, lane);
  return own->second;
}

}  // namespace tutti::sim
