#include "src/sim/bounds.hpp"

#include <cmath>

#include "src/sim/time.hpp"

namespace tutti::sim {
namespace {

/// Rounds until knowledge that multiplies by `factor` in each has reached `members`.
double rounds(std::int32_t members, double factor) {
  double count = 0;
  for (double reached = 1; reached < members; reached *= factor) ++count;
  return count;
}

/// Of the size of the call, what must cross the border around one of `parts` equal parts of the
/// ranks in one direction at least: around the busiest of them, which is the root's where there is
/// one. `adds`: so does something between the parts.
double share_over_border(Collective collective, std::int32_t parts, bool adds) {
  if (parts == 1) return 0;
  const double others = static_cast<double>(parts - 1) / parts;
  switch (collective) {
    case Collective::kAllReduce:
      return adds ? 1 : 2 * others;
    case Collective::kBroadcast:
    case Collective::kReduce:
      return 1;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      return others;
    case Collective::kSend:
    case Collective::kRecv:
      return 0;
  }
  return 0;
}

double microseconds(double bytes, double gigabytes_per_second) {
  return bytes / gigabytes_per_second / 1e3;
}

/// The additions, spread over all ranks if no switch `adds`.
double compute(const ir::Request& request, double bytes, const BoundCosts& costs, bool adds) {
  if (!reduces(request.collective) || adds) return 0;
  const double n = request.ranks;
  return bytes * (n - 1) / n * costs.reduce_ps_per_byte / kPicosecondsPerMicrosecond;
}

/// By how much the number of those who know multiplies in a round.
double spreading(std::int32_t ranks, const BoundCosts& costs) {
  return costs.ports == 0 ? std::max(ranks, 2) : 1.0 + costs.ports;
}

}  // namespace

Bound uniform_bound(const ir::Request& request, double bytes, const UniformSwitch::Shape& network,
                    const BoundCosts& costs) {
  const std::int32_t n = request.ranks;
  const bool adds = costs.ports == 0 && network.aggregation.has_value();
  return {.latency = rounds(n, spreading(n, costs)) * network.latency,
          .bandwidth = microseconds(bytes * share_over_border(request.collective, n, adds),
                                    network.bandwidth),
          .compute = compute(request, bytes, costs, adds)};
}

Bound two_level_bound(const ir::Request& request, double bytes,
                      const TwoLevelSwitch::Shape& network, const BoundCosts& costs) {
  const std::int32_t n = request.ranks;
  const std::int32_t g = network.ranks_per_node;
  const double each = spreading(n, costs);
  // Between nodes, knowledge multiplies by as much as all ranks of a node can tell others.
  const double latency = std::max(
      rounds(n, each) * std::min(network.inner_latency, network.nodes == 1 ? network.inner_latency
                                                                           : network.outer_latency),
      rounds(network.nodes, 1 + g * (each - 1)) * network.outer_latency);

  const bool outer_adds = costs.ports == 0 && network.outer_aggregation.has_value();
  const bool adds = outer_adds || (costs.ports == 0 && network.inner_aggregation.has_value());
  const double node_border =
      microseconds(bytes * share_over_border(request.collective, network.nodes, outer_adds),
                   g * network.outer_bandwidth);
  // The size of an all-to-all is that of one rank's buffer, and a node has several.
  const double per_node = request.collective == Collective::kAllToAll ? g : 1;
  const double rank_border =
      microseconds(bytes * share_over_border(request.collective, n, adds),
                   network.inner_bandwidth + (network.nodes == 1 ? 0 : network.outer_bandwidth));
  return {.latency = latency,
          .bandwidth = std::max(node_border * per_node, rank_border),
          .compute = compute(request, bytes, costs, adds)};
}

}  // namespace tutti::sim
