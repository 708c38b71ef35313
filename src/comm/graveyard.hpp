// Memory of ended communicators that slower peers may still be reading.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "src/exec/team.hpp"

namespace tutti {

/// A rank that is done with a communicator must not wait for the others, and must not give its
/// memory back while a peer still reads the last result from it. So teams are buried here, and
/// freed once each of their peers has departed too or its process has ended; that is looked at
/// whenever a communicator is made or ends. Thread-safe.
class Graveyard {
 public:
  void bury(std::unique_ptr<exec::Team> team) { lay(std::move(team), /*tell=*/true); }
  /// For the team of a communicator that could not be made here, while some peer may have made its
  /// own and use this memory, and another may have given its memory back: nobody is told, so peers
  /// that failed likewise hold it until their processes end.
  void keep(std::unique_ptr<exec::Team> team) { lay(std::move(team), /*tell=*/false); }
  void reap() {
    std::scoped_lock lock(mutex_);
    reap_locked();
  }

 private:
  void lay(std::unique_ptr<exec::Team> team, bool tell) {
    team->depart(tell);
    std::scoped_lock lock(mutex_);
    buried_.push_back(std::move(team));
    reap_locked();
  }
  void reap_locked() {
    std::erase_if(buried_, [](const auto& team) { return team->unobserved(); });
  }
  std::mutex mutex_;
  std::vector<std::unique_ptr<exec::Team>> buried_;
};

}  // namespace tutti
