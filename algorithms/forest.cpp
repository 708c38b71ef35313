// Forest: each rank's data travels along the rank's own spanning trees.
//
// Words: a root's block is cut into k chunks, one for each of its k trees; a tree of weight w
// stands for w equal trees and carries w chunks in one message. Depth counts hops from the root.
//
// All-gather and broadcast send chunks down their trees, from the root to the leaves.
// Reduce-scatter and reduce send them up, each rank adding its own contribution on the way;
// all-reduce does one after the other. What a rank does at one depth comes before what it does at
// the next, in the same order on both sides of every message, so ranks that execute their programs
// in order cannot deadlock.
//
//   collective             rounds     time for long messages (S is the size convention of Cost)
//   all_gather             height     S/n * Forest::time
//   reduce_scatter         height     S/n * Forest::time
//   all_reduce             2 height   2 S/n * Forest::time
//   broadcast, reduce      height     S * Forest::time
//
// Wins: for large messages on networks that are neither flat nor regular, and where links have
// degraded: no schedule that combines at ranks only has a shorter Forest::time. Short messages do
// not care for bandwidth and lose by the height of the trees.
//
// Source: Zhao et al., "ForestColl: Throughput-optimal collective communications on heterogeneous
// network fabrics" (arXiv 2402.06787).
#include "algorithms/forest.hpp"

#include <algorithm>
#include <map>
#include <ranges>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms/member.hpp"
#include "src/base/result.hpp"

namespace tutti::algorithms {
namespace {

using topo::forest::Forest;
using topo::forest::Hop;
using topo::forest::Tree;

/// A hop, with what is needed to order it among those of other trees.
struct Message {
  std::size_t tree = 0;  ///< position in Forest::trees
  Rank parent = 0;
  Rank child = 0;
  std::int32_t depth = 0;  ///< of the child
};

/// By depth; at each depth every rank first turns to the next rank, then to the one after it.
std::vector<Message> messages_by_depth(const Forest& forest) {
  std::vector<Message> messages;
  for (std::size_t t = 0; t < forest.trees.size(); ++t) {
    std::vector<std::int32_t> depth(static_cast<std::size_t>(forest.ranks), 0);
    for (const Hop& hop : forest.trees[t].hops) {
      std::int32_t& reached = depth[static_cast<std::size_t>(hop.to)];
      reached = depth[static_cast<std::size_t>(hop.from)] + 1;
      messages.push_back({t, hop.from, hop.to, reached});
    }
  }
  const auto key = [&](const Message& message) {
    const Rank distance = (message.child - message.parent + forest.ranks) % forest.ranks;
    return std::tuple(message.depth, distance, message.tree);
  };
  std::ranges::sort(messages, {}, key);
  return messages;
}

class Writer {
 public:
  Writer(const ir::Request& request, const Forest& forest)
      : forest_(forest),
        messages_(messages_by_depth(forest)),
        builder_(request, "forest", chunks_per_block(request, forest)) {
    const auto trees = static_cast<std::uint32_t>(forest.trees_per_root);
    const Collective collective = request.collective;
    const bool all_in =
        collective == Collective::kReduceScatter || collective == Collective::kAllReduce;
    const bool all_out =
        collective == Collective::kAllGather || collective == Collective::kAllReduce;
    std::map<Rank, std::uint32_t> used;  // of each root's chunks
    for (const Tree& tree : forest.trees) {
      const auto weight = static_cast<std::uint32_t>(tree.weight);
      const std::uint32_t within = std::exchange(used[tree.root], used[tree.root] + weight);
      const std::uint32_t among_all = static_cast<std::uint32_t>(tree.root) * trees + within;
      input_.push_back(in(all_in ? among_all : within, weight));
      output_.push_back(out(all_out ? among_all : within, weight));
    }
  }

  /// From the root's input to everybody's output.
  void send_down() {
    down(input_);
    for (std::size_t t = 0; t < forest_.trees.size(); ++t) {
      builder_.rank(forest_.trees[t].root).copy(input_[t], output_[t]);
    }
  }

  /// From the root's output to that of the others.
  void send_sums_down() { down(output_); }

  /// The sum of everybody's input to the root's output. A rank adds its input to what its first
  /// child sends, and what other children send to that.
  void add_up() {
    std::map<std::pair<std::size_t, Rank>, ChunkSet> partial;  // of a tree at a rank that has some
    for (const Message& message : std::views::reverse(messages_)) {
      const std::size_t t = message.tree;
      const Tree& tree = forest_.trees[t];
      const auto complete = partial.find({t, message.child});
      builder_.rank(message.child)
          .send(complete == partial.end() ? input_[t] : complete->second, message.parent);

      auto parent = builder_.rank(message.parent);
      const ChunkSet arrived = parent.scratch(input_[t]);
      parent.recv(arrived, message.child);
      const bool is_root = message.parent == tree.root;
      const auto [sum, first] =
          partial.try_emplace({t, message.parent}, is_root ? output_[t] : arrived);
      if (first && is_root) parent.copy(input_[t], sum->second);
      parent.reduce(first && !is_root ? input_[t] : arrived, sum->second);
    }
  }

  ir::Schedule finish() && { return std::move(builder_).finish(); }

  static std::uint32_t chunks_per_block(const ir::Request& request, const Forest& forest) {
    const auto blocks = request.collective == Collective::kAllReduce ? forest.ranks : 1;
    return static_cast<std::uint32_t>(blocks * forest.trees_per_root);
  }

 private:
  void down(const std::vector<ChunkSet>& at_root) {
    for (const Message& message : messages_) {
      const bool from_root = message.parent == forest_.trees[message.tree].root;
      const ChunkSet& held = from_root ? at_root[message.tree] : output_[message.tree];
      builder_.rank(message.parent).send(held, message.child);
      builder_.rank(message.child).recv(output_[message.tree], message.parent);
    }
  }

  const Forest& forest_;
  std::vector<Message> messages_;
  ir::Builder builder_;
  std::vector<ChunkSet> input_, output_;  // the chunks of each tree
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
/// up to four spaces.
Status check_size(const Forest& forest) {
  constexpr std::int64_t kMostChunks = std::int64_t{1} << 23U;
  const auto blocks =
      static_cast<std::int64_t>(forest.ranks) * static_cast<std::int64_t>(forest.roots.size());
  if (forest.trees_per_root <= kMostChunks / blocks) return ok_status();
  return make_error(Code::kInvalidArgument,
                    "{} trees from each of {} roots are too many chunks for {} ranks: grow the "
                    "forest with GrowOptions::most_trees_per_root of {} or less",
                    forest.trees_per_root, forest.roots.size(), forest.ranks, kMostChunks / blocks);
}

}  // namespace

Result<ir::Schedule> forest_schedule(const ir::Request& request, const Forest& forest) {
  if (!well_formed(request)) return unsupported("forest", request);
  TUTTI_TRY(check_roots(request, forest));
  TUTTI_TRY(check_size(forest));
  if (request.ranks == 1) return generate(request, "forest", 1, nullptr);
  Writer writer(request, forest);
  switch (request.collective) {
    case Collective::kAllGather:
    case Collective::kBroadcast:
      writer.send_down();
      break;
    case Collective::kReduceScatter:
    case Collective::kReduce:
      writer.add_up();
      break;
    case Collective::kAllReduce:
      writer.add_up();
      writer.send_sums_down();
      break;
    default:
      return unsupported("forest", request);
  }
  return std::move(writer).finish();
}

}  // namespace tutti::algorithms
