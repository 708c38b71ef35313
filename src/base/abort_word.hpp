// The flag that tells a communicator's waits to stop, with the error that says why.
#pragma once

#include <atomic>
#include <mutex>

#include "tutti/error.hpp"

namespace tutti {

/// Any thread may raise it (service thread, user's abort, a failing operation); every wait reads
/// it. The first error wins and stays. raised() is one load, cheap enough for every poll.
class AbortWord {
 public:
  /// Returns true when this call set it.
  bool raise(Error error) {
    std::scoped_lock lock(mutex_);
    if (raised_.load(std::memory_order_relaxed)) return false;
    error_ = std::move(error);
    raised_.store(true, std::memory_order_release);
    return true;
  }
  [[nodiscard]] bool raised() const { return raised_.load(std::memory_order_acquire); }
  /// Valid once raised().
  [[nodiscard]] Error error() const {
    std::scoped_lock lock(mutex_);
    return error_;
  }

 private:
  std::atomic<bool> raised_{false};
  mutable std::mutex mutex_;
  Error error_;
};

}  // namespace tutti
