// Three-step: an all-to-all in which each pair of nodes exchanges one message in each direction.
//
// Words: nodes.hpp defines nodes. For every other node, a node has a gateway, one of its ranks. The
// gateways of a node take turns, so with g ranks each serves at most k = ceil((N-1)/g) nodes. First
// the ranks of a node give each gateway their data for its nodes, and give each other the data that
// stays in the node. Then the two gateways of each pair of nodes exchange all data between these
// nodes. Then each gateway distributes what arrived. There are N nodes of g ranks, n = N g.
//
//   collective    rounds   bytes sent by the busiest rank
//   all_to_all    3        S ((g-1) + (N-1) g + 2 k g (g-1)) / n
//
// Only necessary data moves between nodes. A node sends N-1 messages of g^2 blocks, where
// hierarchical_pairwise sends g (N-1) messages of g blocks, and pairwise g^2 (N-1) messages of one
// block. Data that crosses nodes takes two more hops inside them, where all_to_all on all rails
// takes one.
//
// Wins: for blocks so small that the number of messages between nodes decides the time.
//
// Sources: the three-step all-to-all among the example programs of msccl-tools (Cowan et al.,
// "MSCCLang", ASPLOS 2023); with one rank as the gateway to all nodes it is the hierarchical one of
// Nie et al., "HetuMoE" (arXiv 2203.14685).
#include <utility>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "algorithms/member.hpp"
#include "algorithms/two_levels.hpp"
#include "src/base/result.hpp"
#include "src/ir/embed.hpp"

namespace tutti::algorithms {
namespace three_step_parts {

using ir::Part;
using ir::Region;
using ir::Request;
using ir::Space;

std::size_t index(Rank rank) { return static_cast<std::size_t>(rank); }

/// The local number in `node` of its gateway to the node `other`.
Rank gateway(const Nodes& nodes, Rank node, Rank other) {
  return (other < node ? other : other - 1) % nodes.size(node);
}

/// The nodes for which the rank of that local number is the gateway of `node`.
std::vector<Rank> beyond(const Nodes& nodes, Rank node, Rank local) {
  std::vector<Rank> others;
  for (Rank other = 0; other < nodes.count(); ++other)
    if (other != node && gateway(nodes, node, other) == local) others.push_back(other);
  return others;
}

/// Blocks in the scratch of a gateway: by other node, then by local number of who has, or gets,
/// them in its own node.
using Held = std::vector<std::vector<Region>>;

class Writer {
 public:
  explicit Writer(const Request& request)
      : whole_(request, "three_step", 1), nodes_(whole_.nodes()) {
    for (Rank node = 0; node < nodes_.count(); ++node) {
      leaving_.push_back(hold(node, Space::kInput));
      arrived_.push_back(hold(node, Space::kOutput));
    }
  }

  Result<ir::Schedule> run() && {
    for (Rank node = 0; node < nodes_.count(); ++node) TUTTI_TRY(hand_in(node));
    for (Rank node = 0; node < nodes_.count(); ++node)
      for (Rank other = node + 1; other < nodes_.count(); ++other) TUTTI_TRY(exchange(node, other));
    for (Rank node = 0; node < nodes_.count(); ++node) TUTTI_TRY(hand_out(node));
    return std::move(whole_).finish();
  }

 private:
  /// Scratch at the gateways of a node, for each of its ranks.
  Held hold(Rank node, Space space) {
    Held held(index(nodes_.count()), std::vector<Region>(index(nodes_.size(node))));
    for (Rank other = 0; other < nodes_.count(); ++other) {
      if (other == node) continue;
      const Rank keeper = nodes_.ranks(node)[index(gateway(nodes_, node, other))];
      for (Region& region : held[index(other)])
        region = whole_.scratch(keeper, whole_.blocks_of(other, space));
    }
    return held;
  }

  /// Each rank gives to each other one of its node the block for it, and all that goes beyond it.
  Status hand_in(Rank node) {
    const std::vector<Rank>& ranks = nodes_.ranks(node);
    return whole_.inside(
        node, straight_, {.collective = Collective::kAllToAll},
        [&](Rank, std::uint32_t to) {
          Region given{in(static_cast<std::uint32_t>(ranks[to]))};
          for (const Rank other : beyond(nodes_, node, static_cast<Rank>(to)))
            append(given, whole_.blocks_of(other, Space::kInput));
          return given;
        },
        [&](Rank to, std::uint32_t from) {
          Region taken{out(static_cast<std::uint32_t>(ranks[from]))};
          for (const Rank other : beyond(nodes_, node, to))
            append(taken, leaving_[index(node)][index(other)][from]);
          return taken;
        });
  }

  /// The gateways of two nodes to each other. A message has the blocks in the order of who they are
  /// from, and then of who they are for.
  Status exchange(Rank node, Rank other) {
    const Rank ends[] = {node, other};
    const auto rank_at = [&](Rank here, Rank there) {
      return nodes_.ranks(here)[index(gateway(nodes_, here, there))];
    };
    TUTTI_ASSIGN(const ir::Schedule pair,
                 straight_.generate({.collective = Collective::kAllToAll, .ranks = 2}));
    return whole_.between(
        pair, {{rank_at(node, other), rank_at(other, node)},
               [&](Rank here, std::uint32_t there) {
                 Region sent;
                 if (index(here) == there) return sent;
                 for (const Region& from : leaving_[index(ends[here])][index(ends[there])])
                   append(sent, from);
                 return sent;
               },
               [&](Rank here, std::uint32_t there) {
                 return index(here) == there ? Region{} : sorted_by_source(ends[here], ends[there]);
               }});
  }

  /// Where the gateway of `node` puts what comes from `other`: each of its ranks' share has a block
  /// of each rank there.
  Region sorted_by_source(Rank node, Rank other) const {
    const std::vector<Region>& shares = arrived_[index(node)][index(other)];
    Region place;
    for (std::uint32_t from = 0; from < static_cast<std::uint32_t>(nodes_.size(other)); ++from)
      for (const Region& share : shares) append(place, nth(share, from));
    return place;
  }

  /// Each gateway gives to each rank of its node what has come for it.
  Status hand_out(Rank node) {
    return whole_.inside(
        node, straight_, {.collective = Collective::kAllToAll},
        [&](Rank gate, std::uint32_t to) {
          Region given;
          for (const Rank other : beyond(nodes_, node, gate))
            append(given, arrived_[index(node)][index(other)][to]);
          return given;
        },
        [&](Rank, std::uint32_t gate) {
          Region taken;
          for (const Rank other : beyond(nodes_, node, static_cast<Rank>(gate)))
            append(taken, whole_.blocks_of(other, Space::kOutput));
          return taken;
        });
  }

  const ir::Algorithm straight_ = direct();
  TwoLevels whole_;
  const Nodes& nodes_;
  std::vector<Held> leaving_, arrived_;  // by node
};

bool supports(const Request& request) {
  return request.collective == Collective::kAllToAll && well_formed(request) &&
         has_two_levels(request);
}

Result<ir::Schedule> generate(const Request& request) {
  if (!supports(request)) return unsupported("three_step", request);
  return Writer(request).run();
}

}  // namespace three_step_parts

ir::Algorithm three_step() {
  using namespace three_step_parts;
  return {.name = "three_step",
          .summary = "all_to_all with one message between two nodes, through a gateway at each",
          .supports = supports,
          .generate = generate};
}

}  // namespace tutti::algorithms
