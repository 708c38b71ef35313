// The failures that a rank has learnt of, and the one handler that is told of them.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "src/base/clock.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Thread-safe. report() keeps an error. deliver_pending() gives the handler all errors that it has
/// not seen, in order. A handler that is set later sees the earlier errors too.
class FailureHandler {
 public:
  using Function = std::function<void(const Error&)>;

  /// Replaces the handler. Returns only when no call of the old one is under way, unless it is
  /// called from inside that handler.
  void set(Function function);
  void report(Error error);
  /// Calls the handler in this thread. Calls are never concurrent: when another thread is
  /// delivering, it delivers these too.
  void deliver_pending();

  /// The first error reported, or ok.
  [[nodiscard]] Status first() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable idle_;
  Function function_;
  std::vector<Error> errors_;
  std::size_t delivered_ = 0;
  std::thread::id delivering_;  // default: nobody
};

/// How often a process that is watched over sends a heartbeat.
Nanos heartbeat_interval(Nanos liveness);
/// It counts as silent after so many looks, one in each such interval, that found nothing.
int looks_until_silent(Nanos liveness);
/// `where`: how to find the rank's process.
Error silence_of(Rank rank, const std::string& where, Nanos liveness);
/// A peer's abort notice as a member hears it.
Error notice_of(Rank from, const Error& error);

}  // namespace tutti
