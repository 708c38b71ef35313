#include "src/exec/wait_state.hpp"

#include <algorithm>

namespace tutti::exec {

void WaitState::set_cpus(int ranks, int cpus) {
  alone_ = WaitPolicy::for_ranks_on_host(ranks, cpus);
  with_computing_caller_ = WaitPolicy::with_computing_callers(ranks, cpus);
}

void WaitState::blocked_on_any(Rank peer, std::span<const WaitWord> words, bool moved) {
  if (moved) fruitless_ = 0;
  peer_ = peer;
  blocked_ = words.empty() ? WaitWord{} : words.front();
  on_several_ = words.size() > 1;
  if (on_several_) also_blocked_.assign(words.begin() + 1, words.end());
}

void WaitState::idle(std::uint32_t polls, CallerActivity caller) {
  const WaitPolicy& policy = this->policy(caller);
  polls = std::min(polls, fruitless_++);
  if (policy.phase(polls) != WaitPhase::kSleep ||
      (connections_.empty() && trees_.empty() && !on_several_))
    return wait_once(policy, polls, blocked_);
  WaitSet waits;
  add_wakers(waits);
  wait_once(waits);
}

void WaitState::add_to(WaitSet& waits, CallerActivity caller) {
  const WaitPhase phase = policy(caller).phase(fruitless_++);
  waits.phase = std::min(waits.phase, phase);
  if (phase == WaitPhase::kSleep) add_wakers(waits);
}

void WaitState::add_wakers(WaitSet& waits) const {
  waits.longest_sleep = std::min(waits.longest_sleep, alone_.longest_sleep);
  if (blocked_.word != nullptr) waits.words.push_back(blocked_);
  if (on_several_)
    waits.words.insert(waits.words.end(), also_blocked_.begin(), also_blocked_.end());
  const auto add = [&](const auto& end) {
    if (const int fd = end.poll_fd(); fd >= 0)
      waits.descriptors.push_back(
          {fd, static_cast<short>(end.wants_write() ? POLLIN | POLLOUT : POLLIN), 0});
  };
  for (const Connection* connection : connections_) add(*connection);
  constexpr Nanos kPollAnyway = std::chrono::microseconds(200);
  for (const AggregationTree* tree : trees_) {
    add(*tree);
    if (tree->poll_fd() < 0) waits.longest_sleep = std::min(waits.longest_sleep, kPollAnyway);
  }
}

}  // namespace tutti::exec
