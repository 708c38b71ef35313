// Where ranks that are threads of one process find each other's memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "transports/cuda_p2p/area.hpp"
#include "tutti/types.hpp"

namespace tutti::cuda_p2p {

/// Thread-safe.
class Board {
 public:
  void put(std::uint64_t communicator, Rank rank, std::shared_ptr<const Area> area) {
    const std::scoped_lock lock(mutex_);
    areas_[{communicator, rank}] = std::move(area);
  }
  /// Null if that rank has put none.
  std::shared_ptr<const Area> find(std::uint64_t communicator, Rank rank) {
    const std::scoped_lock lock(mutex_);
    const auto found = areas_.find({communicator, rank});
    return found == areas_.end() ? nullptr : found->second;
  }
  void erase(std::uint64_t communicator, Rank rank) {
    const std::scoped_lock lock(mutex_);
    areas_.erase({communicator, rank});
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::uint64_t, Rank>, std::shared_ptr<const Area>> areas_;
};

}  // namespace tutti::cuda_p2p
