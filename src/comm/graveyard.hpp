// Memory of destroyed communicators that slower peers may still be reading.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "src/exec/team.hpp"

namespace tutti {

/// A rank that is done with a communicator must not wait for the others, and must not give its
/// memory back while a peer still reads the last result from it. So teams are buried here and freed
/// once all their peers have departed too. A peer that died never departs: its survivors' teams (a
/// few MiB each) stay until the process ends. Thread-safe.
class Graveyard {
 public:
  void bury(std::unique_ptr<exec::Team> team) {
    team->depart();
    std::scoped_lock lock(mutex_);
    buried_.push_back(std::move(team));
    reap_locked();
  }
  /// For a team whose peers may have learned of its memory but never will depart, since not all of
  /// them could be met: it stays until the process ends.
  void keep(std::unique_ptr<exec::Team> team) {
    std::scoped_lock lock(mutex_);
    kept_.push_back(std::move(team));
  }
  void reap() {
    std::scoped_lock lock(mutex_);
    reap_locked();
  }

 private:
  void reap_locked() {
    std::erase_if(buried_, [](const auto& team) { return team->unobserved(); });
  }
  std::mutex mutex_;
  std::vector<std::unique_ptr<exec::Team>> buried_, kept_;
};

}  // namespace tutti
