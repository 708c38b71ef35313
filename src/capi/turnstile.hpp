// The order in which calls on one communicator run, whatever threads and streams they run on.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/waiter.hpp"

namespace tutti::capi {

/// Calls take a ticket when they are made and run when it is their turn. take() is for one thread
/// at a time (a communicator has one caller); the rest is thread-safe. Without contention a turn
/// costs one locked instruction. Waits end because every call before ends by the
/// communicator's own deadline and liveness rules.
class Turnstile {
 public:
  [[nodiscard]] std::uint64_t take() { return taken_.fetch_add(1); }

  void await(std::uint64_t ticket) const {
    for (std::uint32_t polls = 0;; ++polls) {
      const std::uint64_t now = served_.load(std::memory_order_acquire);
      if (now >= ticket) return;  // nobody passes a ticket that was taken; drain() has none
      wait_once({}, polls, {&served_, now, &sleepers_});
    }
  }

  void leave() {
    // Only whoever has the turn writes.
    served_.store(served_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    wake_sleepers(served_, sleepers_);
  }

  /// Returns when all who took a ticket before have left.
  void drain() const { await(taken_.load()); }

 private:
  std::atomic<std::uint64_t> taken_{0};
  std::atomic<std::uint64_t> served_{0};
  mutable std::atomic<std::uint32_t> sleepers_{0};
};

/// One turn as a scope.
class Turn {
 public:
  explicit Turn(Turnstile& turnstile) : turnstile_(turnstile) {
    turnstile_.await(turnstile_.take());
  }
  ~Turn() { turnstile_.leave(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Turnstile& turnstile_;
};

/// A turn taken now and used later, perhaps by another thread. Given up unused it lets the others
/// pass, once it is its turn.
class TurnLater {
 public:
  explicit TurnLater(Turnstile& turnstile) : turnstile_(turnstile), ticket_(turnstile.take()) {}
  ~TurnLater() {
    if (left_) return;
    await();
    leave();
  }
  TurnLater(const TurnLater&) = delete;
  TurnLater& operator=(const TurnLater&) = delete;

  void await() const { turnstile_.await(ticket_); }
  void leave() {
    left_ = true;
    turnstile_.leave();
  }

 private:
  Turnstile& turnstile_;
  const std::uint64_t ticket_;
  bool left_ = false;
};

}  // namespace tutti::capi
