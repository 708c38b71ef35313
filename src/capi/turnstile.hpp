// Runs the calls on one communicator in the order in which they were made, on any threads and
// streams.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>

#include "src/base/clock.hpp"
#include "src/base/waiter.hpp"

namespace tutti::capi {

/// Calls take a ticket when they are made and run when it is their turn. Thread-safe. Without
/// contention a turn costs one locked instruction. Waits end because every call before ends by the
/// communicator's own deadline and liveness rules.
///
/// A thread that takes a ticket with take() does nothing but wait for its turn. A ticket of
/// reserve() is used later, perhaps behind work of other communicators. Until then it may be
/// cancelled, and then nobody waits for it.
class Turnstile {
 public:
  [[nodiscard]] std::uint64_t take() { return taken_.fetch_add(1); }

  [[nodiscard]] std::uint64_t reserve() {
    std::scoped_lock lock(mutex_);
    return *reserved_.insert(take()).first;
  }

  /// False when `deadline` passes before it is the ticket's turn.
  bool await(std::uint64_t ticket, Deadline deadline = Deadline::never()) {
    for (std::uint32_t polls = 0; !came(ticket); ++polls) {
      if (deadline.passed()) return false;
      pass_cancelled();
      wait_once({}, polls, until(ticket));
    }
    return true;
  }

  /// Nobody passes a ticket that was taken and not cancelled; drain() has none.
  [[nodiscard]] bool came(std::uint64_t ticket) const {
    return served_.load(std::memory_order_acquire) >= ticket;
  }

  /// Whether nobody took one behind it.
  [[nodiscard]] bool is_last(std::uint64_t ticket) const { return taken_.load() == ticket + 1; }

  /// Makes a reserved ticket whose turn has come one that cannot be cancelled any more; false when
  /// it was.
  [[nodiscard]] bool claim(std::uint64_t ticket) {
    std::scoped_lock lock(mutex_);
    return reserved_.erase(ticket) > 0;
  }

  [[nodiscard]] bool cancelled(std::uint64_t ticket) {
    std::scoped_lock lock(mutex_);
    return !reserved_.contains(ticket);
  }

  void cancel(std::uint64_t ticket) {
    std::scoped_lock lock(mutex_);
    if (reserved_.erase(ticket) > 0) cancelled_.insert(ticket);
    any_cancelled_.store(!cancelled_.empty(), std::memory_order_release);
  }

  /// All that are reserved and were not claimed.
  void cancel_reserved() {
    std::scoped_lock lock(mutex_);
    cancelled_.merge(reserved_);
    any_cancelled_.store(!cancelled_.empty(), std::memory_order_release);
  }

  void leave() {
    // Only whoever has the turn writes.
    served_.store(served_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    wake_sleepers(served_, sleepers_);
  }

  /// Returns when all who took a ticket before have left, or false when `deadline` passes first.
  bool drain(Deadline deadline = Deadline::never()) { return await(taken_.load(), deadline); }

  /// What to sleep on until it may be the ticket's turn.
  [[nodiscard]] WaitWord until(std::uint64_t ticket) const {
    const std::uint64_t now = served_.load(std::memory_order_acquire);
    if (now >= ticket) return {};
    return {&served_, now, &sleepers_};
  }

  /// Turns whose tickets were cancelled are over as soon as somebody waits for a later one.
  void pass_cancelled() {
    if (!any_cancelled_.load(std::memory_order_acquire)) return;
    std::scoped_lock lock(mutex_);
    while (cancelled_.erase(served_.load(std::memory_order_acquire)) > 0) leave();
    any_cancelled_.store(!cancelled_.empty(), std::memory_order_release);
  }

 private:
  std::atomic<std::uint64_t> taken_{0};
  std::atomic<std::uint64_t> served_{0};
  mutable std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<bool> any_cancelled_{false};
  std::mutex mutex_;
  std::set<std::uint64_t> reserved_;   // not claimed yet
  std::set<std::uint64_t> cancelled_;  // not passed yet
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

/// A turn reserved now and used later, perhaps by another thread. Given up unused it lets the
/// others pass.
class TurnLater {
 public:
  explicit TurnLater(Turnstile& turnstile) : turnstile_(&turnstile), ticket_(turnstile.reserve()) {}
  ~TurnLater() {
    if (claimed_)
      leave();
    else
      turnstile_->cancel(ticket_);
  }
  TurnLater(const TurnLater&) = delete;
  TurnLater& operator=(const TurnLater&) = delete;

  /// Waits for the turn; false when it was cancelled, or when `deadline` passes first.
  [[nodiscard]] bool enter(Deadline deadline = Deadline::never()) {
    return turnstile_->await(ticket_, deadline) && claim();
  }
  void leave() {
    claimed_ = false;
    turnstile_->leave();
  }

  /// The steps of enter(), for whoever waits for several turns.
  [[nodiscard]] bool came() const {
    turnstile_->pass_cancelled();
    return turnstile_->came(ticket_);
  }
  [[nodiscard]] bool claim() { return claimed_ = turnstile_->claim(ticket_); }
  [[nodiscard]] bool cancelled() const { return turnstile_->cancelled(ticket_); }
  [[nodiscard]] WaitWord until() const { return turnstile_->until(ticket_); }
  [[nodiscard]] bool is_last() const { return turnstile_->is_last(ticket_); }

 private:
  Turnstile* turnstile_;
  const std::uint64_t ticket_;
  bool claimed_ = false;
};

}  // namespace tutti::capi
