// One thread that runs jobs in the order they came: behind tuttiStream_t, and behind communicators
// that do not block.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace tutti::capi {

/// Resource. Thread-safe. The thread starts with the first job.
class Worker {
 public:
  Worker() = default;
  /// Runs what is queued, then ends the thread. Must not be called from a job.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void push(std::function<void()> job);
  [[nodiscard]] bool idle() const;
  /// Returns once everything pushed before has run.
  void drain();

 private:
  void loop();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::size_t unfinished_ = 0;  // queued or running
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace tutti::capi
