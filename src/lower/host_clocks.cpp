#include "src/lower/host_clocks.hpp"

#include <algorithm>

namespace tutti::lower {

HostClocks::HostClocks(const Placement& placement) : ranks_(placement.host.size()) {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    std::vector<Rank>& host = hosts_[placement.host[rank]];
    ranks_[rank].host = placement.host[rank];
    ranks_[rank].place = host.size();
    host.push_back(static_cast<Rank>(rank));
  }
  for (RankClock& rank : ranks_) rank.clock.assign(hosts_.at(rank.host).size(), 0);
}

bool HostClocks::join(Rank rank, Rank peer, std::uint64_t position) {
  if (position == 0) return true;
  const std::vector<Published>& published = at(peer).published;
  const auto found = std::ranges::lower_bound(published, position, {}, &Published::progress);
  if (found == published.end()) return false;
  Clock& mine = at(rank).clock;
  for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = std::max(mine[i], found->clock[i]);
  return true;
}

}  // namespace tutti::lower
