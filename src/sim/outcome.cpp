#include "src/sim/outcome.hpp"

#include <algorithm>

namespace tutti::sim {
namespace {

void add_links(const Job& job, const End& end, Outcome& outcome) {
  const std::vector<double> rates = capacities(job);
  for (LinkId link = 0; link < job.fabric.links().size(); ++link) {
    const LinkLoad& load = end.network.loads()[link];
    const double possible = rates[link] * static_cast<double>(end.now);
    outcome.links.push_back({load.bytes, to_microseconds(load.busy),
                             possible > 0 ? static_cast<double>(load.bytes) / possible : 0});
    if (load.bytes == 0) continue;
    if (!outcome.bottleneck ||
        outcome.links[link].utilisation > outcome.links[*outcome.bottleneck].utilisation)
      outcome.bottleneck = link;
  }
}

void add_groups(const Job& job, const End& end, Outcome& outcome) {
  const auto groups = job.groups.groups();
  for (ir::GroupId id = 0; id < groups.size(); ++id) {
    outcome.operations += groups[id].order.size();
    const double possible =
        groups[id].rate * kBytesPerPicosecondAtOneGigabyte * static_cast<double>(end.now);
    const std::uint64_t bytes = end.network.loads()[job.groups.limit_of(id)].bytes;
    outcome.groups.push_back({groups[id].name, groups[id].order.size(),
                              to_microseconds(end.groups.busy(id)),
                              possible > 0 ? static_cast<double>(bytes) / possible : 0});
  }
}

}  // namespace

Outcome outcome_of(const Job& job, const End& end) {
  Outcome outcome;
  outcome.time_us = to_microseconds(end.now);
  outcome.tasks = end.tasks;
  outcome.messages = job.traffic.messages().size();
  for (const std::uint64_t bytes : end.bytes_sent)
    outcome.most_bytes_sent = std::max(outcome.most_bytes_sent, bytes);
  add_links(job, end, outcome);
  add_groups(job, end, outcome);
  return outcome;
}

}  // namespace tutti::sim
