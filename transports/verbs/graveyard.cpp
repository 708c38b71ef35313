#include "transports/verbs/graveyard.hpp"

#include <utility>

namespace tutti::verbs {

Graveyard::~Graveyard() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  news_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Graveyard::bury(QueuePair pair, std::shared_ptr<CompletionQueue> completions) {
  {
    const std::scoped_lock lock(mutex_);
    dead_.push_back({std::move(completions), std::move(pair)});
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  news_.notify_one();
}

void Graveyard::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    news_.wait(lock, [this] { return over_ || !dead_.empty(); });
    if (dead_.empty()) return;
    std::deque<Dead> dead;
    dead.swap(dead_);
    lock.unlock();
    dead.clear();
    lock.lock();
  }
}

}  // namespace tutti::verbs
