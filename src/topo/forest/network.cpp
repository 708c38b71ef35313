#include "src/topo/forest/network.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "src/base/result.hpp"

namespace tutti::topo::forest {
namespace {

Status check_sizes(const Network& network) {
  if (network.nodes.size() > kMostVertices) {
    return make_error(Code::kInvalidArgument,
                      "the network has {} nodes, and a forest is grown over {} at most: leave out "
                      "what no rank uses, or grow one for each part",
                      network.nodes.size(), kMostVertices);
  }
  if (network.links.size() > kMostNetworkLinks) {
    return make_error(Code::kInvalidArgument,
                      "the network has {} links, and a forest is grown over {} at most: join those "
                      "between the same nodes",
                      network.links.size(), kMostNetworkLinks);
  }
  if (network.compute_nodes().empty()) {
    return make_error(Code::kInvalidArgument,
                      "none of the network's {} nodes computes: mark those where ranks are",
                      network.nodes.size());
  }
  return ok_status();
}

Status check_link(const Network& network, std::size_t index) {
  const Network::Link& link = network.links[index];
  if (link.from >= network.nodes.size() || link.to >= network.nodes.size()) {
    return make_error(Code::kInvalidArgument, "link {} leads from node {} to node {} of {} nodes",
                      index, link.from, link.to, network.nodes.size());
  }
  if (link.from == link.to) {
    return make_error(Code::kInvalidArgument, "link {} leads from {} to itself: leave it out",
                      index, network.nodes[link.from].name);
  }
  if (link.capacity < 0 || link.capacity > kMostTotalCapacity) {
    return make_error(Code::kInvalidArgument,
                      "link {} from {} to {} has capacity {}: it must be 0 to {}; count in larger "
                      "units",
                      index, network.nodes[link.from].name, network.nodes[link.to].name,
                      link.capacity, kMostTotalCapacity);
  }
  return ok_status();
}

enum class Direction : std::uint8_t { kForwards, kBackwards };

/// Which vertices `start` reaches over links that have capacity, or which reach it.
std::vector<bool> reached(const Network& network, Vertex start, Direction direction) {
  std::vector<std::vector<Vertex>> next(network.nodes.size());
  for (const Network::Link& link : network.links) {
    if (link.capacity == 0) continue;
    const bool forwards = direction == Direction::kForwards;
    next[forwards ? link.from : link.to].push_back(forwards ? link.to : link.from);
  }
  std::vector<bool> seen(network.nodes.size(), false);
  std::vector<Vertex> open = {start};
  seen[start] = true;
  while (!open.empty()) {
    const Vertex at = open.back();
    open.pop_back();
    for (const Vertex to : next[at]) {
      if (seen[to]) continue;
      seen[to] = true;
      open.push_back(to);
    }
  }
  return seen;
}

/// Everybody reaches everybody if the first one reaches all and all reach the first one.
Status check_connected(const Network& network) {
  const std::vector<Vertex> ranks = network.compute_nodes();
  const std::vector<bool> from_first = reached(network, ranks[0], Direction::kForwards);
  const std::vector<bool> to_first = reached(network, ranks[0], Direction::kBackwards);
  for (const Vertex rank : ranks) {
    if (from_first[rank] && to_first[rank]) continue;
    const bool lost = !from_first[rank];
    return make_error(Code::kInvalidArgument,
                      "no path with capacity leads from {} to {}: without one no collective can "
                      "join them; leave {} out of the job or mend its links",
                      network.nodes[lost ? ranks[0] : rank].name,
                      network.nodes[lost ? rank : ranks[0]].name, network.nodes[rank].name);
  }
  return ok_status();
}

struct Throughput {
  std::int64_t in = 0;
  std::int64_t out = 0;
};

/// The first switch that is out of balance.
std::optional<Vertex> unbalanced_switch(const Network& network, std::vector<Throughput>& through) {
  through.assign(network.nodes.size(), {});
  for (const Network::Link& link : network.links) {
    through[link.from].out += link.capacity;
    through[link.to].in += link.capacity;
  }
  for (Vertex v = 0; v < network.nodes.size(); ++v) {
    if (!network.nodes[v].computes && through[v].in != through[v].out) return v;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Vertex> Network::compute_nodes() const {
  std::vector<Vertex> found;
  for (Vertex v = 0; v < nodes.size(); ++v) {
    if (nodes[v].computes) found.push_back(v);
  }
  return found;
}

Status check(const Network& network) {
  TUTTI_TRY(check_sizes(network));
  std::int64_t total = 0;
  for (std::size_t i = 0; i < network.links.size(); ++i) {
    TUTTI_TRY(check_link(network, i));
    total += network.links[i].capacity;
    if (total > kMostTotalCapacity) {
      return make_error(Code::kInvalidArgument,
                        "the links up to number {} have a capacity of {} together, and a network "
                        "may have {}: count in larger units",
                        i, total, kMostTotalCapacity);
    }
  }
  return check_connected(network);
}

Status check_balance(const Network& network) {
  std::vector<Throughput> through;
  const std::optional<Vertex> found = unbalanced_switch(network, through);
  if (!found) return ok_status();
  return make_error(Code::kInvalidArgument,
                    "links of capacity {} lead into switch {} and {} out of it; a switch forwards "
                    "what it gets and cannot copy: grow the forest on balanced(network)",
                    through[*found].in, network.nodes[*found].name, through[*found].out);
}

Network balanced(const Network& network) {
  std::vector<Throughput> through;
  if (!unbalanced_switch(network, through)) return network;

  std::map<std::pair<Vertex, Vertex>, std::int64_t> capacity;
  for (const Network::Link& link : network.links) capacity[{link.from, link.to}] += link.capacity;
  Network result{network.nodes, {}, network.unit};
  for (const auto& [ends, forward] : capacity) {
    const auto [from, to] = ends;
    std::int64_t usable = forward;
    if (!network.nodes[from].computes || !network.nodes[to].computes) {
      const auto backward = capacity.find({to, from});
      usable = backward == capacity.end() ? 0 : std::min(forward, backward->second);
    }
    result.links.push_back({from, to, usable});
  }
  return result;
}

}  // namespace tutti::topo::forest
