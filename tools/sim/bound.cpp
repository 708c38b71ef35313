#include "tools/sim/bound.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/topo/forest/from_topology.hpp"
#include "src/topo/forest/optimum.hpp"

namespace tutti::simtool {
namespace {

using topo::NodeId;
using topo::Topology;
namespace forest = topo::forest;

/// Beyond these the search for all cuts takes longer than a look at the result is worth, and a
/// longest way is searched from the first ranks only.
constexpr std::int32_t kMostForestRanks = 256;
constexpr std::size_t kMostSources = 64;

/// What must cross the border of a group of ranks, as a share of the size of the call.
struct Share {
  double out = 0;
  double in = 0;
};

Share share_of(const ir::Request& request, std::int32_t inside, bool has_root) {
  const double n = request.ranks;
  const double own = inside / n;
  const double others = 1 - own;
  switch (request.collective) {
    case Collective::kAllReduce:
      return {1, 1};
    case Collective::kAllGather:
      return {own, others};
    case Collective::kReduceScatter:
      return {others, own};
    case Collective::kAllToAll:  // its size is that of one rank's buffer
      return {inside * others, inside * others};
    case Collective::kBroadcast:
      return has_root ? Share{1, 0} : Share{0, 1};
    case Collective::kReduce:
      return has_root ? Share{0, 1} : Share{1, 0};
    case Collective::kScatter:
      return has_root ? Share{others, 0} : Share{0, own};
    case Collective::kGather:
      return has_root ? Share{0, others} : Share{own, 0};
    case Collective::kSend:
    case Collective::kRecv:
      return {};
  }
  return {};
}

/// Ranks that a cut sets apart from the others, and the links over its border.
struct Group {
  std::string name;
  std::int32_t ranks = 0;
  bool has_root = false;
  double out = 0, in = 0;  // GB/s
};

/// Of all ranks or all hosts; `group_of` gives each node's, or a number beyond `groups`.
template <class GroupOf>
std::vector<Group> groups_of(const Machine& machine, Rank root, std::size_t count,
                             GroupOf group_of) {
  const Topology& topology = *machine.topology;
  std::vector<Group> groups(count);
  for (std::size_t rank = 0; rank < machine.placement.ranks.size(); ++rank) {
    Group& group = groups[group_of(machine.placement.ranks[rank])];
    ++group.ranks;
    group.has_root = group.has_root || rank == static_cast<std::size_t>(root);
  }
  for (const topo::Link& link : topology.links()) {
    const std::size_t from = group_of(link.from);
    const std::size_t to = group_of(link.to);
    if (from == to) continue;
    if (from < count) groups[from].out += link.bandwidth;
    if (to < count) groups[to].in += link.bandwidth;
  }
  return groups;
}

std::vector<Group> nodes_with_ranks(const Machine& machine, Rank root) {
  std::vector<Group> all = groups_of(machine, root, machine.topology->nodes().size(),
                                     [](NodeId node) { return std::size_t{node}; });
  std::vector<Group> groups;
  for (NodeId node = 0; node < all.size(); ++node) {
    if (all[node].ranks == 0) continue;
    all[node].name = full_name(*machine.topology, node);
    groups.push_back(std::move(all[node]));
  }
  return groups;
}

std::vector<Group> hosts_with_ranks(const Machine& machine, Rank root) {
  std::vector<Group> all =
      groups_of(machine, root, machine.topology->hosts().size(),
                [&](NodeId node) { return std::size_t{machine.topology->node(node).host}; });
  std::vector<Group> groups;
  for (std::size_t host = 0; host < all.size(); ++host) {
    if (all[host].ranks == 0) continue;
    all[host].name = machine.topology->hosts()[host].name;
    groups.push_back(std::move(all[host]));
  }
  return groups;
}

/// The worst bound so far.
struct Worst {
  double share_per_gbs = 0;  // share of the size of the call over GB/s
  std::string reason;
  void consider(double share, double bandwidth, const std::function<std::string()>& why) {
    if (bandwidth <= 0 || share / bandwidth <= share_per_gbs) return;
    share_per_gbs = share / bandwidth;
    reason = why();
  }
};

/// `adds`: so does something between these groups.
void consider_groups(const ir::Request& request, const std::vector<Group>& groups,
                     std::string_view kind, bool adds, Worst& worst) {
  if (groups.size() < 2) return;
  double out = 0;
  double in = 0;
  for (const Group& group : groups) {
    const Share share = share_of(request, group.ranks, group.has_root);
    worst.consider(share.out, group.out, [&] { return "links out of " + group.name; });
    worst.consider(share.in, group.in, [&] { return "links into " + group.name; });
    out += group.out;
    in += group.in;
  }
  if (request.collective != Collective::kAllReduce || adds) return;
  const double messages = 2 * (static_cast<double>(groups.size()) - 1);
  worst.consider(messages, std::min(in, out), [&] { return fmt::format("links of all {}", kind); });
}

bool has_forest_optimum(Collective collective) {
  return collective == Collective::kAllGather || collective == Collective::kReduceScatter ||
         collective == Collective::kBroadcast || collective == Collective::kReduce;
}

void consider_forest(const Machine& machine, const ir::Request& request, Worst& worst) {
  if (!has_forest_optimum(request.collective) || request.ranks > kMostForestRanks) return;
  auto noted = forest::network_of(*machine.topology, machine.placement);
  if (!noted || !noted->assumptions.empty()) return;
  forest::Network& network = noted->network;
  if (reduces(request.collective))
    for (forest::Network::Link& link : network.links) std::swap(link.from, link.to);
  std::vector<forest::Vertex> roots = network.compute_nodes();
  if (rooted(request.collective)) roots = {roots[static_cast<std::size_t>(request.root)]};
  const auto optimum = forest::find_optimum(network, roots);
  if (!optimum) return;
  const double bandwidth = forest::algorithm_bandwidth(network, roots.size(), optimum->time);
  // Where a plain cut is as bad, it says more.
  constexpr double kMarkedly = 1 + 1e-9;
  worst.consider(1, bandwidth * kMarkedly,
                 [&] { return std::string("worst of all cuts (forest)"); });
}

/// Microseconds from a node to every other along the quickest links; Dijkstra's method.
std::vector<double> latencies_from(const Topology& topology, NodeId source,
                                   const std::vector<std::vector<topo::LinkId>>& leaving,
                                   bool backwards) {
  std::vector<double> reached(topology.nodes().size(), std::numeric_limits<double>::infinity());
  using Entry = std::pair<double, NodeId>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  reached[source] = 0;
  open.emplace(0, source);
  while (!open.empty()) {
    const auto [us, node] = open.top();
    open.pop();
    if (us > reached[node]) continue;
    for (const topo::LinkId id : leaving[node]) {
      const topo::Link& link = topology.link(id);
      const NodeId next = backwards ? link.from : link.to;
      if (us + link.latency >= reached[next]) continue;
      reached[next] = us + link.latency;
      open.emplace(reached[next], next);
    }
  }
  return reached;
}

/// Of the longest way between two ranks of which one needs what the other has.
double longest_latency(const Machine& machine, const ir::Request& request) {
  const Topology& topology = *machine.topology;
  const bool backwards =
      request.collective == Collective::kReduce || request.collective == Collective::kGather;
  std::vector<std::vector<topo::LinkId>> leaving(topology.nodes().size());
  for (topo::LinkId id = 0; id < topology.links().size(); ++id)
    leaving[backwards ? topology.link(id).to : topology.link(id).from].push_back(id);

  const auto& places = machine.placement.ranks;
  std::vector<NodeId> sources(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                                   places.size(), kMostSources)));
  if (rooted(request.collective)) sources = {places[static_cast<std::size_t>(request.root)]};
  double longest = 0;
  for (const NodeId source : sources) {
    const std::vector<double> reached = latencies_from(topology, source, leaving, backwards);
    for (const NodeId place : places)
      if (reached[place] < std::numeric_limits<double>::infinity())
        longest = std::max(longest, reached[place]);
  }
  return longest;
}

}  // namespace

Bounds::Bounds(const Machine& machine, const ir::Request& request, const sim::BoundCosts& costs)
    : machine_(&machine), request_(request), costs_(costs) {
  if (machine.topology == nullptr) return;
  const Adding adding = costs.ports == 0 ? adding_of(machine) : Adding{};
  if (adding.anywhere()) costs_.reduce_ps_per_byte = 0;
  Worst worst;
  consider_groups(request, nodes_with_ranks(machine, request.root), "ranks", adding.anywhere(),
                  worst);
  consider_groups(request, hosts_with_ranks(machine, request.root), "hosts", adding.between_hosts,
                  worst);
  consider_forest(machine, request, worst);
  us_per_byte_ = worst.share_per_gbs / 1e3;
  worst_cut_ = worst.reason;
  latency_us_ = longest_latency(machine, request);
}

LowerBound Bounds::at(double bytes) const {
  sim::Bound bound;
  if (machine_->uniform) {
    bound = sim::uniform_bound(request_, bytes, *machine_->uniform, costs_);
  } else if (machine_->two_level) {
    bound = sim::two_level_bound(request_, bytes, *machine_->two_level, costs_);
  } else {
    // The additions are the same on every network.
    const sim::UniformSwitch::Shape any = {.ranks = request_.ranks};
    bound = {.latency = latency_us_,
             .bandwidth = bytes * us_per_byte_,
             .compute = sim::uniform_bound(request_, bytes, any, costs_).compute};
  }
  const double time = bound.time();
  if (time == bound.bandwidth && time > 0)
    return {time, worst_cut_.empty() ? "bandwidth" : worst_cut_};
  if (time == bound.latency && time > 0) return {time, "latency"};
  return {time, time > 0 ? "additions" : "none"};
}

}  // namespace tutti::simtool
