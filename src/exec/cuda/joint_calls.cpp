#include "src/exec/cuda/joint_calls.hpp"

#include <utility>

namespace tutti::exec::cuda {

using tutti::cuda::Event;
using Outcome = Result<std::shared_ptr<Event>>;

/// Under the lock.
JointCalls::State& JointCalls::state_of(std::uint64_t number) {
  State& state = calls_[number];
  if (state.here.empty()) state.here.resize(static_cast<std::size_t>(ranks_));
  return state;
}

void JointCalls::come(std::uint64_t number, Rank rank, JointRank bring, const Launch& launch) {
  {
    const std::scoped_lock lock(mutex_);
    if (all_dissolved_) return;
    State& state = state_of(number);
    state.here[static_cast<std::size_t>(rank)] = std::move(bring);
    if (++state.came < ranks_ || state.decided) return;
    std::vector<JointRank> all;
    for (auto& one : state.here) all.push_back(std::move(*one));
    state.decided = true;
    if (auto launched = launch(all))
      state.behind = *std::move(launched);
    else
      state.error = std::move(launched).error();
  }
  changed_.notify_all();
}

void JointCalls::dissolve(std::uint64_t number) {
  {
    const std::scoped_lock lock(mutex_);
    if (all_dissolved_) return;
    state_of(number).decided = true;
  }
  changed_.notify_all();
}

void JointCalls::dissolve_all() {
  {
    const std::scoped_lock lock(mutex_);
    all_dissolved_ = true;
    for (auto& [number, state] : calls_) state.decided = true;
  }
  changed_.notify_all();
}

Outcome JointCalls::await(std::uint64_t number, Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (all_dissolved_ && !calls_.contains(number)) return Outcome(nullptr);
  State& state = state_of(number);
  while (!state.decided && !deadline.passed()) changed_.wait_for(lock, deadline.nap());
  if (!state.decided) {
    state.decided = true;
    changed_.notify_all();
  }
  const std::optional<Error> error = state.error;
  std::shared_ptr<Event> behind = state.behind;
  if (++state.left == ranks_) calls_.erase(number);
  if (error) return *error;
  return behind;
}

}  // namespace tutti::exec::cuda
