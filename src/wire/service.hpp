// The service thread: one per process. It sleeps until a descriptor, a timer or a task wakes it.
//
// It does what must go on while the caller computes: heartbeats, late connections, the rendezvous
// hub, abort notices. Everything that runs on it must be short and must not wait.
//
// Its owner (src/builtin's process, or a test) creates it at first use and shares it. Objects that
// live on the thread (watches, timers, attachments) may keep a `Service&` but no
// shared_ptr<Service>: the thread ends with the last shared_ptr.
//
// fork(): the child has no service thread. Its copies of the descriptors keep the parent's
// connections open until it exits or execs (all are close-on-exec). So peers notice the parent's
// death by silence (the liveness limit) and not at once. The child may destroy the object, which
// closes its copies, and must use nothing else of it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "src/wire/memory_reserve.hpp"
#include "tutti/error.hpp"

namespace tutti {

class Service {
 public:
  using Task = std::function<void()>;
  using WatchId = std::uint64_t;
  using TimerId = std::uint64_t;
  /// `events`: EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR ... of epoll(7).
  using Handler = std::function<void(std::uint32_t events)>;

  /// Starts the thread. kUnavailable when the process is out of descriptors or threads.
  static Result<std::shared_ptr<Service>> create();
  /// Ends the thread. It first runs the tasks posted so far, then destroys attachments, watches and
  /// timers, all on the thread.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Random and unique to this process: tells ranks which of them share a process.
  [[nodiscard]] std::uint64_t token() const { return token_; }

  // ---- from any thread ----

  /// Runs `task` on the service thread; tasks run in posting order.
  void post(Task task);
  /// Runs `function` on the service thread and returns its value, or throws what it threw. Runs it
  /// directly when called on that thread.
  template <class Function>
  auto call(Function function) -> std::invoke_result_t<Function>;
  [[nodiscard]] bool on_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

  // ---- on the service thread only ----

  /// Calls `handler` whenever one of `events` is present (level-triggered). `fd` stays the caller's
  /// and must be open until unwatch().
  Result<WatchId> watch(int fd, std::uint32_t events, Handler handler);
  void rewatch(WatchId id, std::uint32_t events);
  /// The handler is not called afterwards, not even for an event already found. A handler may
  /// unwatch itself.
  void unwatch(WatchId id);

  /// Calls `task` once, at `when` or soon after.
  TimerId at(TimePoint when, Task task);
  /// Has no effect when it has run.
  void cancel(TimerId id);

  /// Frees a reserve of memory, so that a caller that has run out of memory can still report it.
  /// Once.
  void release_reserve() { reserve_.release(); }

  /// How often this thread has ended all connections of this process: something that it ran threw,
  /// for want of memory, and what was lost so nobody can tell. Peers see this process die.
  [[nodiscard]] std::uint64_t failures() const { return failures_; }
  /// Why, the last time.
  [[nodiscard]] const Error& last_failure() const { return last_failure_; }

  /// A slot for an object that lives on this thread, one per name. Empty at first; destroyed on the
  /// thread when the thread ends.
  std::shared_ptr<void>& attachment(const std::string& name) { return attachments_[name]; }

 private:
  struct Watch {
    int fd = -1;
    Handler handler;
  };

  Service(Fd epoll, Fd wakeup);
  void run();
  void run_tasks();
  void run_timers();
  void run_events();
  template <class Body>
  void guard(const Body& body);
  void end_connections(const char* why);
  [[nodiscard]] int sleep_ms() const;
  void wake();

  Fd epoll_;
  Fd wakeup_;
  const std::uint64_t token_;
  const pid_t owner_;

  std::mutex mutex_;
  std::vector<Task> tasks_;
  bool stopping_ = false;

  // Used only on the thread.
  MemoryReserve reserve_;
  std::uint64_t failures_ = 0;
  Error last_failure_;
  std::uint64_t next_id_ = 1;
  std::unordered_map<WatchId, std::shared_ptr<Watch>> watches_;
  std::map<std::pair<TimePoint, TimerId>, Task> timers_;
  std::unordered_map<TimerId, TimePoint> timer_times_;
  std::map<std::string, std::shared_ptr<void>> attachments_;

  std::thread thread_;
};

template <class Function>
auto Service::call(Function function) -> std::invoke_result_t<Function> {
  using Value = std::invoke_result_t<Function>;
  if (on_thread()) return function();
  std::mutex mutex;
  std::condition_variable done;
  bool ready = false;
  std::exception_ptr thrown;
  const auto finish = [&] {
    std::scoped_lock lock(mutex);
    ready = true;
    done.notify_one();  // under the lock: `done` lives until the waiter has seen `ready`
  };
  const auto wait = [&] {
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return ready; });
    if (thrown) std::rethrow_exception(thrown);
  };
  const auto run = [&](auto&& body) {
    try {
      body();
    } catch (...) {
      thrown = std::current_exception();
    }
    finish();
  };
  if constexpr (std::is_void_v<Value>) {
    post([&] { run(function); });
    wait();
  } else {
    std::optional<Value> value;
    post([&] { run([&] { value.emplace(function()); }); });
    wait();
    return *std::move(value);
  }
}

}  // namespace tutti
