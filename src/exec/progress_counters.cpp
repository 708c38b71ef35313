#include "src/exec/progress_counters.hpp"

#include <algorithm>

namespace tutti::exec {

ProgressCounters::ProgressCounters(Team& team)
    : team_(team),
      starts_(team.size(), 0),
      ends_{std::vector<std::uint64_t>(team.size(), 0), std::vector<std::uint64_t>(team.size(), 0)},
      seen_(team.size(), 0) {}

bool ProgressCounters::passed(Rank peer, std::uint64_t progress) {
  if (seen_[peer] >= progress) return true;
  Progress& theirs = team_.member(peer).block->progress;
  const std::uint64_t seen = theirs.progress.load(std::memory_order_acquire);
  seen_[peer] = seen;
  if (seen >= progress) return true;
  team_.waits().blocked_on(peer, {&theirs.progress, seen, &theirs.sleepers});
  return false;
}

void ProgressCounters::publish(std::uint64_t position) {
  Progress& own = team_.own_block().progress;
  own.progress.store(starts_[team_.rank()] + position, std::memory_order_release);
  wake_sleepers(own.progress, own.sleepers);
}

std::span<const std::uint64_t> ProgressCounters::leave(const Plan& plan) {
  std::vector<std::uint64_t>& ends = ends_[calls_ % 2];
  const auto leaves = [&](Rank rank) {
    starts_[rank] += plan.lowered().programs[rank].positions(plan.slices());
    ends[rank] = starts_[rank];
  };
  leaves(team_.rank());
  std::ranges::for_each(team_.mapped_peers(), leaves);
  ++calls_;
  return ends;
}

}  // namespace tutti::exec
