// A turn on a communicator that calls on its streams share for as long as nobody else wants one.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "src/capi/turnstile.hpp"
#include "src/comm/device_calls.hpp"

namespace tutti::capi {

/// The first who needs the turn enters it; it is left when the last owner goes. Steps are taken in
/// the order in which they were added, whoever takes them. Thread-safe.
class SharedTurn {
 public:
  explicit SharedTurn(Turnstile& turnstile) : turn_(std::make_unique<TurnLater>(turnstile)) {}
  /// One that has ended.
  SharedTurn() = default;

  enum class Entry : std::uint8_t { kEntered, kNotYet, kCancelled };
  /// Does not wait.
  Entry try_enter() {
    const std::scoped_lock lock(mutex_);
    if (!turn_) return Entry::kCancelled;
    if (entered_) return Entry::kEntered;
    if (turn_->cancelled()) return Entry::kCancelled;
    if (!turn_->came()) return Entry::kNotYet;
    entered_ = turn_->claim();
    return entered_ ? Entry::kEntered : Entry::kCancelled;
  }
  /// Adds a step and calls `announce`, unless the turn has ended; it does not end meanwhile.
  template <class Announce>
  void add(HostStep step, Announce&& announce) {
    const std::scoped_lock lock(mutex_);
    if (!turn_) return;
    steps_.push_back(std::move(step));
    announce();
  }
  /// The first of the steps that nobody has taken; none once the turn has ended.
  std::optional<HostStep> take() {
    const std::scoped_lock lock(mutex_);
    if (!turn_ || steps_.empty()) return std::nullopt;
    HostStep step = std::move(steps_.front());
    steps_.pop_front();
    return step;
  }
  /// Leaves the turn, or gives it up unused, although others may share it.
  void end() {
    std::deque<HostStep> left;  // outside the lock: what waits for them goes on
    const std::scoped_lock lock(mutex_);
    turn_.reset();
    left.swap(steps_);
  }
  /// Whether nobody has taken a turn behind this one, which has not ended.
  [[nodiscard]] bool is_last() const {
    const std::scoped_lock lock(mutex_);
    return turn_ && turn_->is_last();
  }
  /// What to sleep on until try_enter() may say something else.
  [[nodiscard]] WaitWord until() const {
    const std::scoped_lock lock(mutex_);
    return turn_ ? turn_->until() : WaitWord{};
  }

 private:
  mutable std::mutex mutex_;
  std::unique_ptr<TurnLater> turn_;
  std::deque<HostStep> steps_;
  bool entered_ = false;
};

/// The shared turn of the calls on a communicator's streams. Thread-safe.
class StreamTurns {
 public:
  /// The one that calls have now, if nobody waits behind it, else a new one.
  std::shared_ptr<SharedTurn> join(Turnstile& turnstile) {
    const std::scoped_lock lock(mutex_);
    if (ended_) return std::make_shared<SharedTurn>();
    std::erase_if(turns_, [](const auto& turn) { return turn.expired(); });
    if (!turns_.empty()) {
      const std::shared_ptr<SharedTurn> current = turns_.back().lock();
      if (current && current->is_last()) return current;
    }
    const auto turn = std::make_shared<SharedTurn>(turnstile);
    turns_.push_back(turn);
    return turn;
  }
  /// Ends the turns that calls have, and those that they would get. What was still to be done is
  /// dropped.
  void end() {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    for (const auto& turn : turns_)
      if (const auto owned = turn.lock()) owned->end();
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<SharedTurn>> turns_;  // in their order
  bool ended_ = false;
};

}  // namespace tutti::capi
