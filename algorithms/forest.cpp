// Forest: each rank's data travels along the rank's own spanning trees.
//
// Words: a root's block is cut into k chunks, one for each of its k trees. A tree of weight w
// stands for w equal trees; each of them is a strand. Depth counts hops from the root.
//
// Between two ranks each strand has a lane of its own, so no strand waits for another. A link
// carries at most as many strands as it has capacity for. So if flows share links fairly, each gets
// its planned rate, whatever the others do. Data on long paths may have several lanes, to arrive
// before data that takes one hop.
//
// All-gather and broadcast send chunks down their trees, from the root to the leaves.
// Reduce-scatter and reduce send them up, and each rank adds its own contribution. All-reduce does
// one after the other. A rank does its work at one depth before that at the next, in the same order
// on both sides of every message. So ranks that execute their programs in order cannot deadlock.
//
//   collective             rounds     time for long messages (S as in docs/algorithms.md)
//   all_gather             height     S/n * Forest::time
//   reduce_scatter         height     S/n * Forest::time
//   all_reduce             2 height   2 S/n * Forest::time
//   broadcast, reduce      height     S * Forest::time
//
// Wins: for large messages on networks that are neither flat nor regular, or that have degraded
// links: no schedule that combines data only at ranks has a shorter Forest::time. Short messages do
// not need bandwidth; for them the height of the trees costs more.
//
// Source: Zhao et al., "ForestColl: Throughput-optimal collective communications on heterogeneous
// network fabrics" (arXiv 2402.06787).
#include "algorithms/forest.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <ranges>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms/member.hpp"
#include "src/base/result.hpp"

namespace tutti::algorithms {
namespace forest_parts {

using topo::forest::Forest;
using topo::forest::Hop;
using topo::forest::Route;
using topo::forest::Tree;
using topo::forest::Vertex;

/// One of the equal trees of a Tree, with one way for each hop, and the chunks that it carries.
struct Strand {
  struct Hop {
    Rank parent = 0;
    Rank child = 0;
    const std::vector<Vertex>* path = nullptr;  ///< from parent to child; the forest's
  };
  Rank root = 0;
  std::uint32_t first = 0;  ///< chunk within the root's block
  std::uint32_t chunks = 0;
  std::vector<Hop> hops;
};

/// The way that the tree of number `at` among its equals takes at a hop.
const std::vector<Vertex>* path_of(const Hop& hop, std::int64_t at) {
  for (const Route& route : hop.routes) {
    if (at < route.weight) return &route.path;
    at -= route.weight;
  }
  return nullptr;
}

/// All strands of a forest, each of which carries `chunks` chunks.
std::vector<Strand> strands_of(const Forest& forest, std::int64_t chunks) {
  std::vector<Strand> strands;
  std::map<Rank, std::int64_t> used;  // chunks of each root
  for (const Tree& tree : forest.trees) {
    for (std::int64_t at = 0; at < tree.weight; ++at) {
      Strand strand;
      strand.root = tree.root;
      strand.first = static_cast<std::uint32_t>(used[tree.root]);
      strand.chunks = static_cast<std::uint32_t>(chunks);
      for (const Hop& hop : tree.hops) strand.hops.push_back({hop.from, hop.to, path_of(hop, at)});
      strands.push_back(std::move(strand));
      used[tree.root] += chunks;
    }
  }
  return strands;
}

/// A hop, with what is needed to order it among those of other strands.
struct Message {
  std::size_t strand = 0;
  const Strand::Hop* hop = nullptr;
  std::int32_t depth = 0;  ///< of the child
  bool can_wait = false;   ///< from the root to a leaf, so nothing follows
};

/// By depth; at each depth every rank first turns to the next rank, then to the one after it.
std::vector<Message> messages_by_depth(const std::vector<Strand>& strands, std::int32_t ranks) {
  std::vector<Message> messages;
  for (std::size_t s = 0; s < strands.size(); ++s) {
    std::vector<std::int32_t> depth(static_cast<std::size_t>(ranks), 0);
    std::vector<bool> sends(static_cast<std::size_t>(ranks), false);
    for (const Strand::Hop& hop : strands[s].hops)
      sends[static_cast<std::size_t>(hop.parent)] = true;
    for (const Strand::Hop& hop : strands[s].hops) {
      std::int32_t& reached = depth[static_cast<std::size_t>(hop.child)];
      reached = depth[static_cast<std::size_t>(hop.parent)] + 1;
      const bool can_wait = reached == 1 && !sends[static_cast<std::size_t>(hop.child)];
      messages.push_back({s, &hop, reached, can_wait});
    }
  }
  const auto key = [&](const Message& message) {
    const Rank distance = wrap(message.hop->child - message.hop->parent, ranks);
    return std::tuple(message.depth, distance, message.strand);
  };
  std::ranges::sort(messages, {}, key);
  return messages;
}

/// Gives each strand a lane of its own between every two ranks that it joins.
class Lanes {
 public:
  Lane take(Rank from, Rank to, const std::vector<Vertex>& path, std::int64_t chunks) {
    std::vector<LaneRoute>& routes = routes_[{from, to}];
    const auto lane = static_cast<Lane>(routes.size());
    routes.push_back({from, to, lane, {path, chunks}});
    return lane;
  }

  std::vector<LaneRoute> finish() && {
    std::vector<LaneRoute> all;
    for (auto& [ends, routes] : routes_) std::ranges::move(routes, std::back_inserter(all));
    return all;
  }

 private:
  std::map<std::pair<Rank, Rank>, std::vector<LaneRoute>> routes_;
};

class Writer {
 public:
  /// `lanes` divides the chunks of every strand that is sent down.
  Writer(const ir::Request& request, std::int64_t chunks_per_root, std::uint32_t lanes = 1)
      : request_(request),
        lanes_of_long_ways_(lanes),
        chunks_per_root_(static_cast<std::uint32_t>(chunks_per_root)),
        builder_(request, "forest",
                 chunks_per_root_ * (request.collective == Collective::kAllReduce
                                         ? static_cast<std::uint32_t>(request.ranks)
                                         : 1U)) {}

  /// From the root's input to everybody's output.
  void send_down(const std::vector<Strand>& strands) {
    down(strands, [this](const Strand& strand) { return input(strand); });
    for (const Strand& strand : strands)
      builder_.rank(strand.root).copy(input(strand), output(strand));
  }

  /// From the root's output to that of the others.
  void send_sums_down(const std::vector<Strand>& strands) {
    down(strands, [this](const Strand& strand) { return output(strand); });
  }

  /// The sum of everybody's input to the root's output. A rank adds its input to what its first
  /// child sends, and what other children send to that.
  void add_up(const std::vector<Strand>& strands) {
    std::map<std::pair<std::size_t, Rank>, ChunkSet> partial;  // of a strand at a rank with some
    for (const Message& message : std::views::reverse(messages_by_depth(strands, request_.ranks))) {
      const Strand& strand = strands[message.strand];
      const auto& [parent_rank, child_rank, path] = *message.hop;
      const std::vector<Vertex> back(path->rbegin(), path->rend());
      const Lane lane = lanes_.take(child_rank, parent_rank, back, strand.chunks);
      const auto complete = partial.find({message.strand, child_rank});
      builder_.rank(child_rank)
          .send(complete == partial.end() ? input(strand) : complete->second, parent_rank, lane);

      auto parent = builder_.rank(parent_rank);
      const ChunkSet arrived = parent.scratch(input(strand));
      parent.recv(arrived, child_rank, lane);
      const bool is_root = parent_rank == strand.root;
      const auto [sum, first] =
          partial.try_emplace({message.strand, parent_rank}, is_root ? output(strand) : arrived);
      if (first && is_root) parent.copy(input(strand), sum->second);
      parent.reduce(first && !is_root ? input(strand) : arrived, sum->second);
    }
  }

  RoutedSchedule finish() && { return {std::move(builder_).finish(), std::move(lanes_).finish()}; }

 private:
  /// Where a strand's chunks are in the buffer, which has all roots' blocks or one.
  [[nodiscard]] std::uint32_t first_of(const Strand& strand, bool all_blocks) const {
    const auto root = static_cast<std::uint32_t>(strand.root);
    return strand.first + (all_blocks ? root * chunks_per_root_ : 0);
  }
  [[nodiscard]] ChunkSet input(const Strand& strand) const {
    const Collective collective = request_.collective;
    const bool all =
        collective == Collective::kReduceScatter || collective == Collective::kAllReduce;
    return in(first_of(strand, all), strand.chunks);
  }
  [[nodiscard]] ChunkSet output(const Strand& strand) const {
    const Collective collective = request_.collective;
    const bool all = collective == Collective::kAllGather || collective == Collective::kAllReduce;
    return out(first_of(strand, all), strand.chunks);
  }

  template <class AtRoot>
  void down(const std::vector<Strand>& strands, AtRoot at_root) {
    for (const Message& message : messages_by_depth(strands, request_.ranks)) {
      const Strand& strand = strands[message.strand];
      const auto& [parent, child, path] = *message.hop;
      const std::uint32_t chunks = strand.chunks / (message.can_wait ? 1 : lanes_of_long_ways_);
      for (std::uint32_t at = 0; at < strand.chunks; at += chunks) {
        const Lane lane = lanes_.take(parent, child, *path, chunks);
        const ChunkSet held = parent == strand.root ? at_root(strand) : output(strand);
        builder_.rank(parent).send(part(held, at, chunks), child, lane);
        builder_.rank(child).recv(part(output(strand), at, chunks), parent, lane);
      }
    }
  }

  static ChunkSet part(ChunkSet whole, std::uint32_t at, std::uint32_t chunks) {
    whole.first += at;
    whole.count = chunks;
    return whole;
  }

  const ir::Request& request_;
  std::uint32_t lanes_of_long_ways_;
  std::uint32_t chunks_per_root_;
  ir::Builder builder_;
  Lanes lanes_;
};

Status check_roots(const ir::Request& request, const Forest& forest) {
  if (forest.ranks != request.ranks) {
    return make_error(Code::kInvalidArgument,
                      "the forest spans {} ranks and {} is asked for over {}: grow one for them",
                      forest.ranks, name_of(request.collective), request.ranks);
  }
  const bool all = forest.roots.size() == static_cast<std::size_t>(forest.ranks);
  if (!rooted(request.collective) && !all) {
    return make_error(Code::kInvalidArgument,
                      "{} needs trees from all {} ranks and the forest has them from {}: grow it "
                      "without GrowOptions::root",
                      name_of(request.collective), request.ranks, forest.roots.size());
  }
  if (rooted(request.collective) && forest.roots != std::vector<Rank>{request.root}) {
    return make_error(Code::kInvalidArgument,
                      "{} needs trees from root {} alone: grow the forest with GrowOptions::root",
                      name_of(request.collective), request.root);
  }
  return ok_status();
}

/// Every rank handles every chunk of every root; the verifier takes 2^25 chunks over all ranks, in
/// up to four spaces. `shares`: chunks of a root's block.
Status check_size(const Forest& forest, std::int64_t shares) {
  constexpr std::int64_t kMostChunks = std::int64_t{1} << 23U;
  const auto blocks =
      static_cast<std::int64_t>(forest.ranks) * static_cast<std::int64_t>(forest.roots.size());
  // Each may need a lane between the same two ranks, in an all-reduce one up and one down.
  constexpr std::int64_t kMostStrands = std::int64_t{1} << 15U;
  const auto roots = static_cast<std::int64_t>(forest.roots.size());
  const std::int64_t most = std::min(kMostChunks / blocks, kMostStrands / roots);
  if (shares <= most) return ok_status();
  return make_error(Code::kInvalidArgument,
                    "{} trees from each of {} roots are too many chunks for {} ranks: grow the "
                    "forest with GrowOptions::most_trees_per_root of {} or less",
                    forest.trees_per_root, forest.roots.size(), forest.ranks, most);
}

/// A forest for the network as it is for data, or reversed for sums, which go up the trees.
Result<Forest> grow_for(const ir::Request& request, topo::forest::Network network, bool sums,
                        bool hides_latency) {
  constexpr std::int64_t kManyTrees = 32;
  if (sums)
    for (topo::forest::Network::Link& link : network.links) std::swap(link.from, link.to);
  topo::forest::GrowOptions options;
  if (rooted(request.collective)) options.root = request.root;
  options.direct_hops_first = hides_latency;
  TUTTI_ASSIGN(Forest grown, topo::forest::grow(network, options));
  if (grown.trees_per_root > kManyTrees) {
    options.most_trees_per_root = kManyTrees;
    TUTTI_ASSIGN(grown, topo::forest::grow(network, options));
  }
  return grown;
}

}  // namespace forest_parts

Result<RoutedSchedule> planned_forest(const ir::Request& request,
                                      const topo::forest::Network& network, bool hides_latency) {
  using namespace forest_parts;
  TUTTI_ASSIGN(const Forest first,
               grow_for(request, network, reduces(request.collective), hides_latency));
  if (request.collective != Collective::kAllReduce)
    return forest_schedule(request, first, hides_latency ? 2 : 1);
  TUTTI_ASSIGN(const Forest second, grow_for(request, network, false, hides_latency));
  return forest_all_reduce(request, first, second);
}

Result<RoutedSchedule> forest_schedule(const ir::Request& request,
                                       const topo::forest::Forest& forest, std::uint32_t lanes) {
  using namespace forest_parts;
  TUTTI_CHECK(lanes > 0, "a message takes a lane");
  if (request.collective == Collective::kAllReduce)
    return forest_all_reduce(request, forest, forest);
  if (!well_formed(request)) return unsupported("forest", request);
  TUTTI_TRY(check_roots(request, forest));
  const bool goes_down =
      request.collective == Collective::kAllGather || request.collective == Collective::kBroadcast;
  const std::uint32_t chunks = goes_down ? lanes : 1;  // of a tree
  TUTTI_TRY(check_size(forest, forest.trees_per_root * chunks));
  if (request.ranks == 1) return RoutedSchedule{generate(request, "forest", 1, nullptr), {}};
  const std::vector<Strand> strands = strands_of(forest, chunks);
  Writer writer(request, forest.trees_per_root * chunks, chunks);
  switch (request.collective) {
    case Collective::kAllGather:
    case Collective::kBroadcast:
      writer.send_down(strands);
      break;
    case Collective::kReduceScatter:
    case Collective::kReduce:
      writer.add_up(strands);
      break;
    default:
      return unsupported("forest", request);
  }
  return std::move(writer).finish();
}

Result<RoutedSchedule> forest_all_reduce(const ir::Request& request,
                                         const topo::forest::Forest& sums,
                                         const topo::forest::Forest& results) {
  using namespace forest_parts;
  if (!well_formed(request) || request.collective != Collective::kAllReduce)
    return unsupported("forest", request);
  for (const topo::forest::Forest* forest : {&sums, &results}) {
    TUTTI_TRY(check_roots(request, *forest));
    TUTTI_TRY(check_size(*forest, forest->trees_per_root));
  }
  // Both cut a block evenly in chunks of the same size.
  const std::int64_t chunks = std::lcm(sums.trees_per_root, results.trees_per_root);
  TUTTI_TRY(check_size(sums, chunks));
  if (request.ranks == 1) return RoutedSchedule{generate(request, "forest", 1, nullptr), {}};
  Writer writer(request, chunks);
  writer.add_up(strands_of(sums, chunks / sums.trees_per_root));
  writer.send_sums_down(strands_of(results, chunks / results.trees_per_root));
  return std::move(writer).finish();
}

}  // namespace tutti::algorithms
