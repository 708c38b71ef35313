#include "src/bootstrap/failure_handler.hpp"

#include <algorithm>
#include <utility>

#include "src/base/result.hpp"

namespace tutti {

void FailureHandler::set(Function function) {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] {
    return delivering_ == std::thread::id{} || delivering_ == std::this_thread::get_id();
  });
  function_ = std::move(function);
  delivered_ = 0;
}

void FailureHandler::report(Error error) {
  std::scoped_lock lock(mutex_);
  errors_.push_back(std::move(error));
}

void FailureHandler::deliver_pending() {
  std::unique_lock lock(mutex_);
  if (delivering_ != std::thread::id{}) return;
  delivering_ = std::this_thread::get_id();
  while (function_ && delivered_ < errors_.size()) {
    const Function function = function_;
    const Error error = errors_[delivered_++];
    lock.unlock();
    function(error);
    lock.lock();
  }
  delivering_ = {};
  idle_.notify_all();
}

Status FailureHandler::first() const {
  std::scoped_lock lock(mutex_);
  if (errors_.empty()) return ok_status();
  return errors_.front();
}

Nanos heartbeat_interval(Nanos liveness) {
  return std::min<Nanos>(std::chrono::seconds(1), liveness / 4);
}

int looks_until_silent(Nanos liveness) {
  const Nanos interval = heartbeat_interval(liveness);
  return static_cast<int>((liveness + interval - Nanos(1)) / interval);
}

Error silence_of(Rank rank, const std::string& where, Nanos liveness) {
  return peer_error(Code::kPeerFailed, rank,
                    "rank {} ({}) has been silent for {:.1f} s: it is stopped or unreachable", rank,
                    where, std::chrono::duration<double>(liveness).count());
}

Error notice_of(Rank from, const Error& error) {
  Error notice = error;
  notice.what = fmt::format("rank {} gave up: {}", from, error.what);
  if (notice.peer == kNoRank) notice.peer = from;
  return notice;
}

}  // namespace tutti
