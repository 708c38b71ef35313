// Leader: one rank of each node communicates for it. The others give it their data and get the
// result from it.
//
// N nodes of g ranks; X is the algorithm between the leaders.
//
//   collective    inside             between leaders   inside
//   all_reduce    reduce of S        X of S            broadcast of S
//   broadcast                        X of S            broadcast of S
//   reduce        reduce of S        X of S
//
// The leader is the rank with local number 0; at the root's node it is the root.
//
// Wins: for small messages, because fewer ranks send between nodes. X counts rounds for N ranks
// instead of n, and each node's interface carries one message where the rails carry g. For larger
// messages all ranks should share the work (hierarchical). If the ranks of a node form a chain and
// X is a double binary tree (tree_over_chains), no rank sends a large message more than three
// times. NCCL's tree is the same, on one channel.
//
// Source: Karonis et al., "Exploiting hierarchy in parallel computer networks to optimize
// collective operation performance" (IPDPS 2000).
#include <utility>

#include "algorithms/hierarchical.hpp"
#include "algorithms/member.hpp"
#include "algorithms/two_levels.hpp"
#include "src/base/result.hpp"
#include "src/ir/embed.hpp"

namespace tutti::algorithms {
namespace leader_parts {

using ir::Part;
using ir::Region;
using ir::Request;
using ir::Space;

class Writer {
 public:
  Writer(const Request& request, std::string_view name, const Leaves& leaves,
         const ir::Schedule& between)
      : request_(request),
        leaves_(leaves),
        between_(between),
        whole_(request, name, between.chunks_per_block),
        nodes_(whole_.nodes()) {}

  Result<ir::Schedule> run() && {
    if (reduces(request_.collective)) TUTTI_TRY(reduce_inside());
    TUTTI_TRY(between_leaders());
    if (request_.collective != Collective::kReduce) TUTTI_TRY(broadcast_inside());
    return std::move(whole_).finish();
  }

 private:
  [[nodiscard]] Rank home() const { return nodes_.node_of(request_.root); }
  /// Local number of a node's leader.
  [[nodiscard]] Rank leader(Rank node) const {
    return rooted(request_.collective) && node == home() ? nodes_.local_of(request_.root) : 0;
  }
  [[nodiscard]] Region vector(Space space) const {
    return {{space, 0, between_.chunks_per_block, 1}};
  }
  [[nodiscard]] bool has_output(Rank rank) const {
    return request_.collective != Collective::kReduce || rank == request_.root;
  }

  /// The sum of a node, where its leader has it.
  Region sum_of(Rank node) {
    const Rank rank = nodes_.ranks(node)[static_cast<std::size_t>(leader(node))];
    if (has_output(rank) && request_.collective != Collective::kReduce)
      return vector(Space::kOutput);
    return whole_.scratch(rank, vector(Space::kInput));
  }

  Status reduce_inside() {
    const bool in_place = request_.in_place && request_.collective == Collective::kAllReduce;
    for (Rank node = 0; node < nodes_.count(); ++node) {
      sums_.push_back(sum_of(node));
      TUTTI_TRY(whole_.inside(
          node, leaves_.sums,
          {.collective = Collective::kReduce, .root = leader(node), .in_place = in_place},
          [&](Rank, std::uint32_t) { return vector(Space::kInput); },
          [&](Rank, std::uint32_t) { return sums_.back(); }));
    }
    return ok_status();
  }

  Status between_leaders() {
    Part part;
    for (Rank node = 0; node < nodes_.count(); ++node)
      part.members.push_back(nodes_.ranks(node)[static_cast<std::size_t>(leader(node))]);
    part.input = [&](Rank node, std::uint32_t c) {
      return nth(sums_.empty() ? vector(Space::kInput) : sums_[static_cast<std::size_t>(node)], c);
    };
    part.output = [&](Rank, std::uint32_t c) { return nth(vector(Space::kOutput), c); };
    return whole_.between(between_, part);
  }

  Status broadcast_inside() {
    const auto output = [&](Rank, std::uint32_t) { return vector(Space::kOutput); };
    for (Rank node = 0; node < nodes_.count(); ++node)
      TUTTI_TRY(whole_.inside(
          node, leaves_.moves,
          {.collective = Collective::kBroadcast, .root = leader(node), .in_place = true}, output,
          output));
    return ok_status();
  }

  const Request& request_;
  const Leaves& leaves_;
  const ir::Schedule& between_;
  TwoLevels whole_;
  const Nodes& nodes_;
  std::vector<Region> sums_;  // of each node, where there are any
};

/// What the leaders run: an all_reduce in their outputs, the sums of their nodes being there.
Request between_leaders(const Request& request) {
  const Nodes nodes(request.layout);
  const bool is_all_reduce = request.collective == Collective::kAllReduce;
  return {.collective = request.collective,
          .ranks = nodes.count(),
          .root = is_all_reduce ? 0 : nodes.node_of(request.root),
          .in_place =
              is_all_reduce || (request.collective == Collective::kBroadcast && request.in_place)};
}

bool supports(const Request& request, const Leaves& leaves) {
  const bool known = request.collective == Collective::kAllReduce ||
                     request.collective == Collective::kBroadcast ||
                     request.collective == Collective::kReduce;
  return known && well_formed(request) && has_two_levels(request) &&
         leaves.between.supports(between_leaders(request));
}

}  // namespace leader_parts

ir::Algorithm leader(std::string_view name, std::string_view summary, const Leaves& leaves) {
  using namespace leader_parts;
  return {.name = name,
          .summary = summary,
          .supports = [leaves](const Request& request) { return supports(request, leaves); },
          .generate = [leaves, name](const Request& request) -> Result<ir::Schedule> {
            if (!supports(request, leaves)) return unsupported(name, request);
            TUTTI_ASSIGN(const ir::Schedule between,
                         leaves.between.generate(between_leaders(request)));
            return Writer(request, name, leaves, between).run();
          }};
}

}  // namespace tutti::algorithms
