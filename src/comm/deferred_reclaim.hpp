// Memory of ended communicators that slower peers may still be reading.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "src/exec/team.hpp"

namespace tutti {

/// Frees the team of an ended communicator later. A rank that ends a communicator must not wait for
/// the others, and must not free its memory while a peer still reads the last result from it. So a
/// team is freed once each of its peers has departed too, or that peer's process has ended. This is
/// checked whenever a communicator is made or ends. Thread-safe.
class DeferredReclaim {
 public:
  void add(std::unique_ptr<exec::Team> team) { depart_and_keep(std::move(team), /*tell=*/true); }
  /// For the team of a communicator that could not be made here. One peer may have made its own and
  /// use this memory; another may have freed its memory. So nobody is told, and peers that failed
  /// likewise hold it until their processes end.
  void keep(std::unique_ptr<exec::Team> team) { depart_and_keep(std::move(team), /*tell=*/false); }
  /// Frees what no peer can read any more.
  void reclaim() {
    std::scoped_lock lock(mutex_);
    reclaim_locked();
  }

 private:
  void depart_and_keep(std::unique_ptr<exec::Team> team, bool tell) {
    team->depart(tell);
    std::scoped_lock lock(mutex_);
    teams_.push_back(std::move(team));
    reclaim_locked();
  }
  void reclaim_locked() {
    std::erase_if(teams_, [](const auto& team) { return team->unobserved(); });
  }
  std::mutex mutex_;
  std::vector<std::unique_ptr<exec::Team>> teams_;
};

}  // namespace tutti
