#include "src/wire/service.hpp"

#include <cerrno>
#include <new>

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/own_thread.hpp"
#include "src/base/result.hpp"
#include "src/wire/crypto.hpp"

namespace tutti {
namespace {
constexpr Service::WatchId kWakeup = 0;
}

Service::Service(Fd epoll, Fd wakeup)
    : epoll_(std::move(epoll)),
      wakeup_(std::move(wakeup)),
      token_(random_u64()),
      owner_(::getpid()) {}

Result<std::shared_ptr<Service>> Service::create() {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  Fd wakeup(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeup;
  if (!epoll || !wakeup || ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wakeup.get(), &event) != 0) {
    return system_error(Code::kUnavailable, errno, "cannot open the service thread's descriptors");
  }
  std::shared_ptr<Service> service(new Service(std::move(epoll), std::move(wakeup)));  // NOLINT
  TUTTI_ASSIGN(service->thread_,
               start_own_thread("the service thread", [raw = service.get()] { raw->run(); }));
  ::pthread_setname_np(service->thread_.native_handle(), "tutti-service");
  return service;
}

Service::~Service() {
  if (!thread_.joinable()) return;
  if (::getpid() != owner_) {  // a forked child: there is no thread to join
    thread_.detach();
    return;
  }
  {
    std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake();
  thread_.join();
}

void Service::post(Task task) {
  bool first = false;
  {
    std::scoped_lock lock(mutex_);
    first = tasks_.empty();
    tasks_.push_back(std::move(task));
  }
  if (first) wake();
}

void Service::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wakeup_.get(), &one, sizeof one);
}

Result<Service::WatchId> Service::watch(int fd, std::uint32_t events, Handler handler) {
  const WatchId id = next_id_++;
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return system_error(Code::kUnavailable, errno, "cannot watch a descriptor");
  }
  watches_.emplace(id, std::make_shared<Watch>(Watch{fd, std::move(handler)}));
  return id;
}

void Service::rewatch(WatchId id, std::uint32_t events) {
  const auto found = watches_.find(id);
  if (found == watches_.end()) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, found->second->fd, &event);
}

void Service::unwatch(WatchId id) {
  const auto found = watches_.find(id);
  if (found == watches_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second->fd, nullptr);
  watches_.erase(found);
}

Service::TimerId Service::at(TimePoint when, Task task) {
  const TimerId id = next_id_++;
  timers_.emplace(std::pair(when, id), std::move(task));
  timer_times_.emplace(id, when);
  return id;
}

void Service::cancel(TimerId id) {
  const auto found = timer_times_.find(id);
  if (found == timer_times_.end()) return;
  timers_.erase({found->second, id});
  timer_times_.erase(found);
}

int Service::sleep_ms() const {
  if (timers_.empty()) return -1;
  return Deadline::at(timers_.begin()->first.first).poll_ms(3'600'000);
}

/// Nobody above this thread would catch what `body` throws.
template <class Body>
void Service::guard(const Body& body) {
  try {
    body();
  } catch (const std::bad_alloc&) {
    end_connections("no memory is left");
  } catch (const std::exception& thrown) {
    end_connections(thrown.what());
  }
}

/// Whoever is at an end of one learns of it as if this process had died. Memory is short.
void Service::end_connections(const char* why) {
  ++failures_;
  for (const auto& [id, watch] : watches_) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    const bool connected = ::getpeername(watch->fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
    if (connected) ::shutdown(watch->fd, SHUT_RDWR);
  }
  reserve_.release();
  last_failure_.code = Code::kUnavailable;
  try {
    last_failure_ =
        make_error(Code::kUnavailable, "the service thread of this process failed: {}", why);
  } catch (const std::bad_alloc&) {
    last_failure_.what = "no memory";  // fits the string itself
  }
}

void Service::run_tasks() {
  std::vector<Task> batch;
  {
    std::scoped_lock lock(mutex_);
    batch.swap(tasks_);
  }
  for (Task& task : batch) {
    guard(task);
    task = nullptr;  // what it holds dies here, in order
  }
}

void Service::run_timers() {
  const TimePoint now = Clock::now();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    auto node = timers_.extract(timers_.begin());
    timer_times_.erase(node.key().second);
    guard(node.mapped());
  }
}

void Service::run_events() {
  epoll_event events[64];
  const int count = ::epoll_wait(epoll_.get(), events, 64, sleep_ms());
  for (int i = 0; i < count; ++i) {
    const WatchId id = events[i].data.u64;
    if (id == kWakeup) {
      std::uint64_t wakeups = 0;
      [[maybe_unused]] const ssize_t n = ::read(wakeup_.get(), &wakeups, sizeof wakeups);
      continue;
    }
    const auto found = watches_.find(id);
    if (found == watches_.end()) continue;
    const auto watch = found->second;  // it may unwatch itself while it runs
    guard([&] { watch->handler(events[i].events); });
  }
}

void Service::run() {
  for (bool stopping = false; !stopping;) {
    run_events();
    run_timers();
    {
      std::scoped_lock lock(mutex_);
      stopping = stopping_;
    }
    run_tasks();
  }
  attachments_.clear();
  watches_.clear();
  timers_.clear();
  timer_times_.clear();
}

}  // namespace tutti
