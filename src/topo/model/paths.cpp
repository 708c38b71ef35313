// A breadth-first search over links, once for each kind of path from the best to the worst, until
// one arrives: it takes no step that is worse than that kind. What arrives first has the fewest
// links, and the widest of these is kept at every node on the way, together with all last links
// that are as good.
#include "src/topo/model/paths.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "src/base/hash.hpp"
#include "src/topo/model/bandwidths.hpp"

namespace tutti::topo {
namespace {

constexpr std::array<std::string_view, kPathKinds> kNames = {
    "LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS"};

/// The kinds that single steps have, ascending.
constexpr std::array kStepKinds = {PathKind::kLocal,      PathKind::kNvlink,      PathKind::kC2c,
                                   PathKind::kPci,        PathKind::kPciSwitches, PathKind::kPciC2c,
                                   PathKind::kHostBridge, PathKind::kSystem};

constexpr std::uint32_t kNoStep = std::numeric_limits<std::uint32_t>::max();

/// By what kind of link a node was reached, as far as that matters further on.
enum class Arrival : std::uint8_t { kOther, kC2c, kNetwork };
constexpr std::uint32_t kArrivals = 3;

Arrival arrival_by(LinkKind kind) {
  if (kind == LinkKind::kC2c) return Arrival::kC2c;
  return kind == LinkKind::kNetwork ? Arrival::kNetwork : Arrival::kOther;
}

NodeId node_of(std::uint32_t state) { return state / kArrivals; }
Arrival arrival_of(std::uint32_t state) { return static_cast<Arrival>(state % kArrivals); }
std::uint32_t state_of(NodeId node, Arrival arrival) {
  return node * kArrivals + static_cast<std::uint32_t>(arrival);
}

}  // namespace

struct PathFinder::Query {
  NodeId from = 0;
  NodeId to = 0;
  HostId from_host = kNoHost;
  HostId to_host = kNoHost;
  std::uint64_t hash = 0;             // of the ends and the flow
  PathKind limit = PathKind::kLocal;  // no step may be worse
  bool network = false;               // whether network links may be taken
};

namespace {

/// What a step over `link` costs, together with passing through the node where it begins. Network
/// links cost nothing: they show in the kind of the whole path, while steps tell how near to its
/// ends the network is.
PathKind kind_of_step(const Topology& topology, const Link& link, bool first, bool last,
                      Arrival arrival) {
  const NodeKind from = topology.node(link.from).kind;
  const NodeKind to = topology.node(link.to).kind;
  switch (link.kind) {
    case LinkKind::kNetwork:
      return PathKind::kLocal;
    case LinkKind::kNvlink:
      return PathKind::kNvlink;
    case LinkKind::kSystem:
      return PathKind::kSystem;
    case LinkKind::kC2c:
      return from == NodeKind::kCpu && !first && arrival != Arrival::kC2c ? PathKind::kPciC2c
                                                                          : PathKind::kC2c;
    case LinkKind::kPci:
      break;
  }
  if (from == NodeKind::kCpu)
    return arrival == Arrival::kC2c ? PathKind::kPciC2c : PathKind::kHostBridge;
  if (to == NodeKind::kCpu && last) return PathKind::kHostBridge;
  return from == NodeKind::kPci && to == NodeKind::kPci ? PathKind::kPciSwitches : PathKind::kPci;
}

/// Whether `node` hands on over `link` what reached it from another.
bool forwards(NodeKind node, const Link& link, Arrival arrival) {
  const bool to_network = link.kind == LinkKind::kNetwork;
  const bool from_network = arrival == Arrival::kNetwork;
  switch (node) {
    case NodeKind::kGpu:
      return false;
    case NodeKind::kNic:
      return to_network != from_network;
    case NodeKind::kCpu:
      return !(to_network && from_network);
    case NodeKind::kPci:
    case NodeKind::kNvswitch:
    case NodeKind::kSwitch:
      return true;
  }
  return false;
}

}  // namespace

std::string_view name_of(PathKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

PathFinder::PathFinder(const Topology& topology)
    : topology_(&topology), reached_(topology.nodes().size() * kArrivals) {}

Path PathFinder::find(NodeId from, NodeId to, std::uint64_t flow) {
  if (from == to) return {PathKind::kLocal, kLocalBandwidth, 0, {}};
  Query query{from, to, topology_->node(from).host, topology_->node(to).host};
  query.hash = mix(mix(mix(0, from), to), flow);
  for (const bool network : {false, true}) {
    query.network = network;
    for (const PathKind limit : kStepKinds) {
      query.limit = limit;
      if (auto path = search(query)) return *std::move(path);
      if (limit != PathKind::kNvlink || network) continue;
      if (Path path = relayed(from, to, query.hash); path.kind == PathKind::kNvlinkRelay)
        return path;
    }
  }
  return {};
}

/// kDisconnected where no GPU between two others has an NVLink to both.
Path PathFinder::relayed(NodeId from, NodeId to, std::uint64_t hash) const {
  const auto is_gpu = [&](NodeId node) { return topology_->node(node).kind == NodeKind::kGpu; };
  const auto of_an_end = [&](HostId host) {
    return host == topology_->node(from).host || host == topology_->node(to).host;
  };
  if (!is_gpu(from) || !is_gpu(to)) return {};
  double widest = 0;
  std::vector<std::array<LinkId, 2>> ways;
  for (const LinkId first : topology_->links_from(from)) {
    const Link& there = topology_->link(first);
    if (there.kind != LinkKind::kNvlink || !is_gpu(there.to)) continue;
    if (!of_an_end(topology_->node(there.to).host)) continue;
    for (const LinkId second : topology_->links_from(there.to)) {
      const Link& onwards = topology_->link(second);
      if (onwards.kind != LinkKind::kNvlink || onwards.to != to) continue;
      const double bandwidth = std::min(there.bandwidth, onwards.bandwidth);
      if (bandwidth < widest) continue;
      if (bandwidth > widest) ways.clear();
      widest = bandwidth;
      ways.push_back({first, second});
    }
  }
  if (ways.empty()) return {};
  const auto& [first, second] = ways[mix(hash, 0) % ways.size()];
  const double latency = topology_->link(first).latency + topology_->link(second).latency;
  return {PathKind::kNvlinkRelay, widest, latency, {first, second}};
}

std::optional<Path> PathFinder::search(const Query& query) {
  ++searches_;
  steps_.clear();
  next_frontier_.clear();
  frontier_ = {state_of(query.from, Arrival::kOther)};
  reached_[frontier_.front()] = {searches_, kLocalBandwidth, 0, kNoStep};
  for (std::uint32_t links = 1; !frontier_.empty(); ++links) {
    for (const State state : frontier_) expand(query, state);
    if (const auto last = arrived(query, links)) return trace(query, *last);
    std::swap(frontier_, next_frontier_);
    next_frontier_.clear();
  }
  return std::nullopt;
}

/// Takes every step that may be taken from `state`.
void PathFinder::expand(const Query& query, State state) {
  const NodeId node = node_of(state);
  const HostId host = topology_->node(node).host;
  const bool first = node == query.from;
  const Reached here = reached_[state];
  for (const LinkId id : topology_->links_from(node)) {
    const Link& link = topology_->link(id);
    const HostId next = topology_->node(link.to).host;
    const bool of_a_third_host =
        next != kNoHost && next != query.from_host && next != query.to_host;
    // The first host is left once, the last one entered once.
    const bool returns = next != host && query.from_host != query.to_host &&
                         ((next != kNoHost && next == query.from_host) ||
                          (host != kNoHost && host == query.to_host));
    if (of_a_third_host || returns) continue;
    if (link.kind == LinkKind::kNetwork && !query.network) continue;
    const Arrival arrival = arrival_of(state);
    if (!first && !forwards(topology_->node(node).kind, link, arrival)) continue;
    const bool last = link.to == query.to;
    if (kind_of_step(*topology_, link, first, last, arrival) > query.limit) continue;
    reach(state_of(link.to, arrival_by(link.kind)), {id, state, kNoStep},
          std::min(here.bandwidth, link.bandwidth), here.links + 1);
  }
}

void PathFinder::reach(State state, Step step, double bandwidth, std::uint32_t links) {
  Reached& known = reached_[state];
  const bool is_new = known.search != searches_;
  if (is_new) next_frontier_.push_back(state);
  if (is_new || (known.links == links && bandwidth > known.bandwidth))
    known = {searches_, bandwidth, links, kNoStep};
  else if (known.links != links || bandwidth < known.bandwidth)
    return;
  step.other = known.steps;
  known.steps = static_cast<std::uint32_t>(steps_.size());
  steps_.push_back(step);
}

/// The widest state of the query's end that was reached by so many links.
std::optional<PathFinder::State> PathFinder::arrived(const Query& query,
                                                     std::uint32_t links) const {
  std::optional<State> best;
  for (std::uint32_t arrival = 0; arrival < kArrivals; ++arrival) {
    const State state = state_of(query.to, static_cast<Arrival>(arrival));
    const Reached& known = reached_[state];
    if (known.search != searches_ || known.links != links) continue;
    if (!best || known.bandwidth > reached_[*best].bandwidth) best = state;
  }
  return best;
}

/// Walks back, and where several links are as good, takes one by the hash.
Path PathFinder::trace(const Query& query, State last) const {
  Path path{query.network ? PathKind::kNetwork : query.limit, reached_[last].bandwidth, 0, {}};
  for (State state = last; reached_[state].steps != kNoStep;) {
    std::uint64_t count = 0;
    for (auto at = reached_[state].steps; at != kNoStep; at = steps_[at].other) ++count;
    std::uint32_t chosen = reached_[state].steps;
    for (auto skip = mix(query.hash, state) % count; skip > 0; --skip)
      chosen = steps_[chosen].other;
    path.links.push_back(steps_[chosen].link);
    path.latency += topology_->link(steps_[chosen].link).latency;
    state = steps_[chosen].from;
  }
  std::ranges::reverse(path.links);
  return path;
}

}  // namespace tutti::topo
