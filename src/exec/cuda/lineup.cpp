#include "src/exec/cuda/lineup.hpp"

#include <algorithm>

namespace tutti::exec::cuda {

void Lineup::came(std::span<const Mark> marks) {
  {
    const std::scoped_lock lock(mutex_);
    for (const Mark& mark : marks) counts_[mark.of] = mark.count;
  }
  changed_.notify_all();
}

bool Lineup::await(std::span<const Mark> marks, Deadline deadline) {
  std::unique_lock lock(mutex_);
  const auto all_came = [&] {
    return std::ranges::all_of(marks,
                               [&](const Mark& mark) { return counts_[mark.of] >= mark.count; });
  };
  while (!all_came() && !deadline.passed()) changed_.wait_for(lock, deadline.nap());
  return all_came();
}

std::shared_ptr<Lineup> LineupBoard::of(std::uint64_t communicator) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(lineups_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Lineup>& place = lineups_[communicator];
  std::shared_ptr<Lineup> lineup = place.lock();
  if (!lineup) place = lineup = std::make_shared<Lineup>();
  return lineup;
}

}  // namespace tutti::exec::cuda
