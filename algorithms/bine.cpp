// Bine: a binomial tree with short messages.
//
// Words: a rank's place is an integer, 0 at the root of the collective. Places that differ by n are
// the same rank. The tree grows in rounds L-1, ..., 1, 0. In round s every rank in the tree serves
// another place. It lies rho(s) forward if the rank's own place is even, and rho(s) back if it is
// odd, where rho(s) = (1 - (-2)^(s+1)) / 3 = 1, -1, 3, -5, 11, ... A rank already in the tree is
// not served again. After round 0 all ranks are in it, for any n. In a binomial tree all messages
// of a round go the same way, 2^s places. Here they go both ways, two thirds as far.
//
//   collective   rounds          bytes sent by the busiest rank
//   broadcast    floor(log2 n)   S c, the root
//   reduce       floor(log2 n)   S
//
// Rounds count messages that depend on one another. c is the number of the root's children: L =
// ceil(log2 n), or L-1 if the root meets a rank that is served already (n = 9, 10, 17, 18, 20, 33,
// ...).
//
// Wins: broadcast and reduce of small messages, against the binomial tree, if near ranks share a
// host, a switch or a ring and links between such groups are scarce. Bine's exchanges for
// collectives without a root are those of Swing (swing.cpp). A sum is rounded once per child.
//
// Source: De Sensi et al., "Bine Trees: Enhancing Collective Operations by Optimizing Communication
// Locality" (SC 2025, arXiv 2508.17311). Counting places without wrapping around is ours; it makes
// the tree exist for odd n too.
#include <algorithm>

#include "algorithms/algorithms.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/member.hpp"
#include "algorithms/tree.hpp"

namespace tutti::algorithms {
namespace bine_parts {

/// A rank's edges; peers are ranks counted from the root, 0 .. n-1.
struct Node {
  bool in_tree = false;
  Rank place = 0;  ///< not wrapped
  Rank parent = kNoRank;
  std::vector<Rank> children;  ///< in the order of rounds: those with the most below them first
};

/// Everybody's edges, by distance from the root.
std::vector<Node> grow(Rank ranks) {
  std::vector<Node> nodes(static_cast<std::size_t>(ranks));
  nodes[0].in_tree = true;
  std::vector<Rank> members = {0};
  for (std::uint32_t round = ceil_log2(static_cast<std::uint32_t>(ranks)); round-- > 0;) {
    const std::size_t servers = members.size();
    for (std::size_t i = 0; i < servers; ++i) {
      Node& server = nodes[static_cast<std::size_t>(members[i])];
      const Rank place = swing_partner(server.place, round);
      const Rank served = wrap(place, ranks);
      Node& node = nodes[static_cast<std::size_t>(served)];
      if (node.in_tree) continue;
      node = {.in_tree = true, .place = place, .parent = members[i], .children = {}};
      server.children.push_back(served);
      members.push_back(served);
    }
  }
  return nodes;
}

/// A rank's edges with ranks in place of distances.
struct Edges {
  Rank parent = kNoRank;
  std::vector<Rank> children;
};

Edges edges_of(const Member& me) {
  const std::vector<Node> nodes = grow(me.ranks);
  const Node& node = nodes[static_cast<std::size_t>(me.from_root())];
  const auto rank_at = [&](Rank distance) { return (me.request.root + distance) % me.ranks; };
  Edges edges;
  if (node.parent != kNoRank) edges.parent = rank_at(node.parent);
  for (const Rank child : node.children) edges.children.push_back(rank_at(child));
  return edges;
}

void broadcast(Member& me) {
  const Edges edges = edges_of(me);
  hand_down(me, {.parent = edges.parent, .children = edges.children},
            me.is_root() ? in(0) : out(0));
  if (me.is_root()) me.program.copy(in(0), out(0));
}

/// The child served last has the fewest ranks below it and is ready first.
void reduce(Member& me) {
  Edges edges = edges_of(me);
  std::ranges::reverse(edges.children);
  sum_up(me, {.parent = edges.parent, .children = edges.children}, in(0), out(0));
}

bool supports(const ir::Request& request) {
  return well_formed(request) && (request.collective == Collective::kBroadcast ||
                                  request.collective == Collective::kReduce);
}

Result<ir::Schedule> generate(const ir::Request& request) {
  if (!supports(request)) return unsupported("bine", request);
  return generate(request, "bine", 1,
                  request.collective == Collective::kBroadcast ? broadcast : reduce);
}

}  // namespace bine_parts

ir::Algorithm bine() {
  using namespace bine_parts;
  return {.name = "bine",
          .summary = "a binomial tree whose messages go to and fro and so stay near",
          .supports = supports,
          .generate = generate};
}

}  // namespace tutti::algorithms
