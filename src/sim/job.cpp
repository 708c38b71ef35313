#include "src/sim/job.hpp"

namespace tutti::sim {

std::vector<double> capacities(const Job& job) {
  constexpr double kNoLimit = 1e6;  // no path leads over it
  std::vector<double> result;
  for (const Link& link : job.fabric.links())
    result.push_back(link.bandwidth * kBytesPerPicosecondAtOneGigabyte);
  for (const SlowLink& slow : job.costs.slow_links) result[slow.link] /= slow.factor;
  for (const GroupOnTree& group : job.groups.groups())
    result.push_back(group.rate > 0 ? group.rate * kBytesPerPicosecondAtOneGigabyte : kNoLimit);
  return result;
}

}  // namespace tutti::sim
