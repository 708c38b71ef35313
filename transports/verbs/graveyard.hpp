// Where queue pairs end that are drained: destroying one may take long. Soft-RoCE waits until every
// packet of it has left a queue, also that of an interface that is down.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "src/verbs/device.hpp"

namespace tutti::verbs {

/// Resource, thread-safe. Its thread starts with the first queue pair. The end of this waits until
/// all are destroyed.
class Graveyard {
 public:
  Graveyard() = default;
  Graveyard(const Graveyard&) = delete;
  Graveyard& operator=(const Graveyard&) = delete;
  ~Graveyard();

  /// Destroys `pair` by and by, and then lets go of `completions`, which it reports to. Nothing may
  /// arrive at the pair any more.
  void bury(QueuePair pair, std::shared_ptr<CompletionQueue> completions);

 private:
  struct Dead {
    std::shared_ptr<CompletionQueue> completions;
    QueuePair pair;  // goes first
  };
  void run();

  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<Dead> dead_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace tutti::verbs
