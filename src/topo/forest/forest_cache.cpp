#include "src/topo/forest/forest_cache.hpp"

#include <algorithm>
#include <utility>

#include "src/base/result.hpp"
#include "src/topo/forest/from_topology.hpp"

namespace tutti::topo::forest {

Result<std::shared_ptr<const Forest>> ForestCache::get(const Topology& topology,
                                                       const Placement& placement,
                                                       const GrowOptions& options) {
  Key key{topology.hash(), placement, options};
  if (std::shared_ptr<const Forest> found = find(key)) return found;
  TUTTI_ASSIGN(const NotedNetwork noted, network_of(topology, placement));
  TUTTI_ASSIGN(Forest grown, grow(noted.network, options));
  auto forest = std::make_shared<const Forest>(std::move(grown));
  insert({std::move(key), forest});
  return forest;
}

std::size_t ForestCache::size() const {
  const std::lock_guard lock(mutex_);
  return recent_.size();
}

std::shared_ptr<const Forest> ForestCache::find(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(recent_.begin(), recent_.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  if (found == recent_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, found);
  return found->forest;
}

void ForestCache::insert(Entry entry) {
  const std::lock_guard lock(mutex_);
  // Another thread may have grown the same one meanwhile.
  std::erase_if(recent_, [&](const Entry& other) { return other.key == entry.key; });
  recent_.push_front(std::move(entry));
  if (recent_.size() > most_) recent_.pop_back();
}

}  // namespace tutti::topo::forest
