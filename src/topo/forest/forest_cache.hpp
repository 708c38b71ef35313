// Keeps forests for reuse, by topology and placement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "src/topo/forest/forest.hpp"
#include "src/topo/model/topology.hpp"
#include "tutti/error.hpp"

namespace tutti::topo::forest {

/// Keeps the most recently used forests. A topology in which a link has degraded has another hash,
/// so its forest is grown anew, and the old one is still there when the link recovers. Thread-safe;
/// while one thread grows a forest, others that find theirs do not wait.
class ForestCache {
 public:
  /// `most`: forests kept, at least 1.
  explicit ForestCache(std::size_t most) : most_(most) {}

  /// The forest of network_of(topology, placement), grown with `options`. Errors are those of
  /// network_of() and grow(), and are not kept.
  Result<std::shared_ptr<const Forest>> get(const Topology& topology, const Placement& placement,
                                            const GrowOptions& options = {});

  [[nodiscard]] std::size_t size() const;

 private:
  struct Key {
    std::uint64_t topology;  ///< Topology::hash()
    Placement placement;
    GrowOptions options;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Entry {
    Key key;
    std::shared_ptr<const Forest> forest;
  };

  std::shared_ptr<const Forest> find(const Key& key);
  void insert(Entry entry);

  const std::size_t most_;
  mutable std::mutex mutex_;
  std::list<Entry> recent_;  // most recent first; guarded by mutex_
};

}  // namespace tutti::topo::forest
