#include "src/capi/worker.hpp"

#include <system_error>
#include <utility>

#include "src/base/result.hpp"

namespace tutti::capi {

Status start_thread(std::thread& thread, std::function<void()> body) {
  try {
    thread = std::thread(std::move(body));
  } catch (const std::system_error& refused) {
    return system_error(Code::kUnavailable, refused.code().value(), "cannot start a thread");
  }
  return ok_status();
}

Worker::~Worker() {
  {
    std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status Worker::start() {
  std::scoped_lock lock(mutex_);
  if (thread_.joinable()) return ok_status();
  return start_thread(thread_, [this] { loop(); });
}

void Worker::push(std::function<void()> job) {
  std::scoped_lock lock(mutex_);  // to the end: the job may free this object
  jobs_.push_back(std::move(job));
  ++unfinished_;
  changed_.notify_all();
}

bool Worker::idle() const {
  std::scoped_lock lock(mutex_);
  return unfinished_ == 0;
}

void Worker::drain() {
  ++waiters_;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return unfinished_ == 0; });
  --waiters_;
}

void Worker::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // what it owns goes before anybody is told that it ran
    lock.lock();
    --unfinished_;
    changed_.notify_all();
  }
}

}  // namespace tutti::capi
