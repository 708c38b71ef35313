#include "transports/verbs/graveyard.hpp"

#include <optional>
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
    std::optional<Dead> next(std::move(dead_.front()));
    dead_.pop_front();
    lock.unlock();
    next.reset();
    lock.lock();
  }
}

}  // namespace tutti::verbs
