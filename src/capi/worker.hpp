// One thread that runs jobs in the order in which they came. A tuttiStream_t has one, and so has a
// communicator that does not block.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "tutti/error.hpp"

namespace tutti::capi {

/// kUnavailable when the system grants no more threads; `thread` is as before then.
Status start_thread(std::thread& thread, std::function<void()> body);

/// Resource. Thread-safe.
class Worker {
 public:
  Worker() = default;
  /// Runs what is queued, then ends the thread. Must not be called from a job.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Once or more before the first job.
  Status start();
  void push(std::function<void()> job);
  [[nodiscard]] bool idle() const;
  /// Whether a thread is in drain().
  [[nodiscard]] bool awaited() const { return waiters_.load(std::memory_order_relaxed) > 0; }
  /// Returns once everything pushed before has run.
  void drain();

 private:
  void loop();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::size_t unfinished_ = 0;   // queued or running
  std::atomic<int> waiters_{0};  // threads in drain()
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace tutti::capi
