// A turn on a communicator that calls on its streams share for as long as nobody else wants one.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "src/capi/turnstile.hpp"

namespace tutti::capi {

/// Entered by the first who needs it, left as the last owner goes. Thread-safe.
class SharedTurn {
 public:
  explicit SharedTurn(Turnstile& turnstile) : turn_(std::make_unique<TurnLater>(turnstile)) {}

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
  /// Calls `body` unless the turn has ended; it does not end meanwhile. What the turn is on stays
  /// as long as it has not ended.
  template <class Body>
  void unless_ended(Body&& body) {
    const std::scoped_lock lock(mutex_);
    if (turn_) body();
  }
  /// Leaves, or gives the turn up unused, whoever has a share in it.
  void end() {
    const std::scoped_lock lock(mutex_);
    turn_.reset();
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
  bool entered_ = false;
};

/// The shared turn of the calls on a communicator's streams. Thread-safe.
class StreamTurns {
 public:
  /// The one that calls have now, if nobody waits behind it, else a new one.
  std::shared_ptr<SharedTurn> join(Turnstile& turnstile) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(turns_, [](const auto& turn) { return turn.expired(); });
    if (!turns_.empty()) {
      const std::shared_ptr<SharedTurn> current = turns_.back().lock();
      if (current && current->is_last()) return current;
    }
    const auto turn = std::make_shared<SharedTurn>(turnstile);
    turns_.push_back(turn);
    return turn;
  }
  /// Ends the turns that calls have: what they have still to do they leave.
  void end() {
    const std::scoped_lock lock(mutex_);
    for (const auto& turn : turns_)
      if (const auto owned = turn.lock()) owned->end();
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<SharedTurn>> turns_;  // in their order
};

}  // namespace tutti::capi
