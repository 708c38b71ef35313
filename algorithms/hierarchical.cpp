// Hierarchical, on all rails: work that can be done inside a node is done there, and every rank of
// a node carries an equal share of the data that must cross to other nodes.
//
// Words: nodes.hpp defines nodes and rails. A part is the share of a vector that belongs to one
// rail. There are N nodes of g ranks, n = N g. X is the algorithm between nodes, on one rail.
//
//   collective       inside                 on each rail          inside
//   all_reduce       reduce_scatter of S    X of S/g              all_gather of S
//   all_gather                              X of S/g              all_gather of S
//   reduce_scatter   reduce_scatter of S    X of S/g
//   broadcast        scatter, at the root   X of S/g              all_gather of S
//   reduce           reduce_scatter of S    X of S/g              gather, at the root
//   all_to_all       all_to_all of S        X of S
//
// Only necessary data moves between nodes, and each message is g times as large as without levels:
// an all_to_all sends (N-1) g times fewer of them. Executors run all steps on one slice of the data
// while the next is under way, so both levels are busy at once.
//
// Wins: if links inside a node are faster than links between nodes, as usual.
//
// Sources: Cho et al., "BlueConnect" (MLSys 2019); Jia et al. (arXiv 1807.11205); the all_to_all is
// the two-dimensional one of Hwang et al., "Tutel" (arXiv 2206.03382).
#include "algorithms/hierarchical.hpp"

#include <map>
#include <utility>

#include "algorithms/member.hpp"
#include "algorithms/two_levels.hpp"
#include "src/base/result.hpp"
#include "src/ir/embed.hpp"

namespace tutti::algorithms {
namespace hierarchical_parts {

using ir::Part;
using ir::Region;
using ir::Request;
using ir::Space;

std::uint32_t number(Rank rank) { return static_cast<std::uint32_t>(rank); }

bool is_one_vector(Collective collective) {
  return collective == Collective::kAllReduce || rooted(collective);
}

/// Writes one schedule, level by level.
class Writer {
 public:
  /// `per_part`: the chunks into which the algorithm between nodes cuts a vector.
  Writer(const Request& request, const Leaves& leaves, std::string_view name,
         std::uint32_t per_part)
      : request_(request),
        leaves_(leaves),
        per_part_(per_part),
        whole_(request, name,
               is_one_vector(request.collective) ? per_part * number(Nodes(request.layout).rails())
                                                 : 1),
        nodes_(whole_.nodes()) {}

  Result<ir::Schedule> run() && {
    TUTTI_TRY(write());
    return std::move(whole_).finish();
  }

 private:
  Status write() {
    switch (request_.collective) {
      case Collective::kAllReduce:
        return all_reduce();
      case Collective::kAllGather:
        return all_gather();
      case Collective::kReduceScatter:
        return reduce_scatter();
      case Collective::kBroadcast:
        return broadcast();
      case Collective::kReduce:
        return reduce();
      default:
        return all_to_all();
    }
  }

  // --- levels
  // -------------------------------------------------------------------------------------

  using Place = std::function<Region(Rank node, Rank member, std::uint32_t chunk)>;

  Status inside_nodes(const ir::Algorithm& leaf, const Request& request, const Place& input,
                      const Place& output) {
    for (Rank node = 0; node < nodes_.count(); ++node)
      TUTTI_TRY(whole_.inside(
          node, leaf, request, [&](Rank m, std::uint32_t c) { return input(node, m, c); },
          [&](Rank m, std::uint32_t c) { return output(node, m, c); }));
    return ok_status();
  }
  Status on_rails(Rank root, bool in_place, const std::function<Part(Rank rail)>& part_of) {
    TUTTI_ASSIGN(const ir::Schedule schedule,
                 leaves_.between.generate({.collective = request_.collective,
                                           .ranks = nodes_.count(),
                                           .root = root,
                                           .in_place = in_place}));
    for (Rank rail = 0; rail < nodes_.rails(); ++rail)
      TUTTI_TRY(whole_.between(schedule, part_of(rail)));
    return ok_status();
  }

  // --- one vector, a part of it for each rail
  // -----------------------------------------------------

  /// Chunks of the part of a rail.
  ChunkSet part_of_rail(Space space, Rank rail) const {
    return {space, number(rail) * per_part_, per_part_, 1};
  }
  /// The parts of all rails that pass through `node` at that local number.
  Region parts_at(Rank node, std::uint32_t local, Space space) const {
    Region region;
    for (const Rank rail : nodes_.rails_at(node, static_cast<Rank>(local)))
      region.push_back(part_of_rail(space, rail));
    return region;
  }

  /// In the outputs of the ranks on a rail, its part.
  Part part_in_outputs(Rank rail) const {
    const auto place = [this, rail](Rank, std::uint32_t c) {
      return Region{out(number(rail) * per_part_ + c)};
    };
    return {nodes_.along(rail), place, place};
  }
  /// Each rank has the parts of its rails in its output, and gets the others.
  Status gather_parts() {
    return inside_nodes(
        leaves_.moves, {.collective = Collective::kAllGather, .in_place = true},
        [this](Rank node, Rank m, std::uint32_t) {
          return parts_at(node, number(m), Space::kOutput);
        },
        [this](Rank node, Rank, std::uint32_t c) { return parts_at(node, c, Space::kOutput); });
  }

  Status all_reduce() {
    TUTTI_TRY(inside_nodes(
        leaves_.sums, {.collective = Collective::kReduceScatter, .in_place = request_.in_place},
        [this](Rank node, Rank, std::uint32_t c) { return parts_at(node, c, Space::kInput); },
        [this](Rank node, Rank m, std::uint32_t) {
          return parts_at(node, number(m), Space::kOutput);
        }));
    TUTTI_TRY(on_rails(0, true, [this](Rank rail) { return part_in_outputs(rail); }));
    return gather_parts();
  }

  Status broadcast() {
    const Rank home = nodes_.node_of(request_.root);
    TUTTI_TRY(whole_.inside(
        home, leaves_.moves,
        {.collective = Collective::kScatter,
         .root = nodes_.local_of(request_.root),
         .in_place = request_.in_place},
        [&](Rank, std::uint32_t c) { return parts_at(home, c, Space::kInput); },
        [&](Rank m, std::uint32_t) { return parts_at(home, number(m), Space::kOutput); }));
    TUTTI_TRY(on_rails(home, true, [this](Rank rail) { return part_in_outputs(rail); }));
    return gather_parts();
  }

  /// Only the root has an output: the others keep sums in scratch, the parts of their rails alone.
  Status reduce() {
    const Rank home = nodes_.node_of(request_.root);
    const auto part_of = [this](Rank rail) { return Region{part_of_rail(Space::kInput, rail)}; };
    const Held of_nodes = hold_rails(part_of);
    Held of_all = hold_rails(part_of);
    for (Rank rail = 0; rail < nodes_.rails(); ++rail)
      if (nodes_.at(home, rail) == request_.root)
        of_all[{request_.root, rail}] = {part_of_rail(Space::kOutput, rail)};

    TUTTI_TRY(inside_nodes(
        leaves_.sums, {.collective = Collective::kReduceScatter},
        [this](Rank node, Rank, std::uint32_t c) { return parts_at(node, c, Space::kInput); },
        [&](Rank node, Rank m, std::uint32_t) { return all_held(of_nodes, node, m); }));
    TUTTI_TRY(on_rails(home, false, [&](Rank rail) {
      const std::vector<Rank> along = nodes_.along(rail);
      const auto chunk = [along, rail](const Held& held, Rank m, std::uint32_t c) {
        return nth(held.at({along[number(m)], rail}), c);
      };
      return Part{along,
                  [chunk, &of_nodes](Rank m, std::uint32_t c) { return chunk(of_nodes, m, c); },
                  [chunk, &of_all](Rank m, std::uint32_t c) { return chunk(of_all, m, c); }};
    }));
    return whole_.inside(
        home, leaves_.moves,
        {.collective = Collective::kGather,
         .root = nodes_.local_of(request_.root),
         .in_place = true},
        [&](Rank m, std::uint32_t) { return all_held(of_all, home, m); },
        [&](Rank, std::uint32_t c) { return parts_at(home, c, Space::kOutput); });
  }

  // --- data in the scratch of ranks, for each of their rails
  // --------------------------------------

  using Held = std::map<std::pair<Rank, Rank>, Region>;  // by rank and rail

  /// Scratch at every rank for each rail through it, sized like like_of(rail).
  Held hold_rails(const std::function<Region(Rank rail)>& like_of) {
    Held held;
    for (Rank rail = 0; rail < nodes_.rails(); ++rail) {
      const Region like = like_of(rail);
      for (Rank node = 0; node < nodes_.count(); ++node)
        held[{nodes_.at(node, rail), rail}] = whole_.scratch(nodes_.at(node, rail), like);
    }
    return held;
  }
  Region all_held(const Held& held, Rank node, Rank local) const {
    Region all;
    for (const Rank rail : nodes_.rails_at(node, local))
      append(all, held.at({nodes_.ranks(node)[number(local)], rail}));
    return all;
  }

  // --- a block for every rank
  // ---------------------------------------------------------------------

  /// The blocks of the ranks whose local number is that of the rail, of all nodes.
  Region blocks_of_rail(Space space, Rank rail) const {
    std::vector<std::uint32_t> blocks;
    for (Rank node = 0; node < nodes_.count(); ++node)
      if (nodes_.has(node, rail)) blocks.push_back(number(nodes_.at(node, rail)));
    return ir::region_of(space, blocks);
  }
  Region blocks_of_rails_at(Space space, Rank node, std::uint32_t local) const {
    Region all;
    for (const Rank rail : nodes_.rails_at(node, static_cast<Rank>(local)))
      append(all, blocks_of_rail(space, rail));
    return all;
  }
  /// The block of the rank of a node whose local number is that of the rail, if there is one.
  Region block_at(Space space, Rank node, Rank rail) const {
    if (!nodes_.has(node, rail)) return {};
    return {{space, number(nodes_.at(node, rail)), 1, 1}};
  }

  Status all_gather() {
    TUTTI_TRY(on_rails(0, request_.in_place, [this](Rank rail) {
      return Part{nodes_.along(rail),
                  [this, rail](Rank node, std::uint32_t) {
                    return nodes_.has(node, rail) ? Region{in(0)} : Region{};
                  },
                  [this, rail](Rank, std::uint32_t c) {
                    return block_at(Space::kOutput, static_cast<Rank>(c), rail);
                  }};
    }));
    return inside_nodes(
        leaves_.moves, {.collective = Collective::kAllGather, .in_place = true},
        [this](Rank node, Rank m, std::uint32_t) {
          return blocks_of_rails_at(Space::kOutput, node, number(m));
        },
        [this](Rank node, Rank, std::uint32_t c) {
          return blocks_of_rails_at(Space::kOutput, node, c);
        });
  }

  Status reduce_scatter() {
    // Of a node, the sums of the blocks of a rail, one for each node that the rail ends at.
    const Held sums = hold_rails([this](Rank rail) { return blocks_of_rail(Space::kInput, rail); });
    TUTTI_TRY(inside_nodes(
        leaves_.sums, {.collective = Collective::kReduceScatter},
        [this](Rank node, Rank, std::uint32_t c) {
          return blocks_of_rails_at(Space::kInput, node, c);
        },
        [&](Rank node, Rank m, std::uint32_t) { return all_held(sums, node, m); }));
    return on_rails(0, false, [&](Rank rail) {
      return Part{nodes_.along(rail),
                  [this, rail, &sums](Rank node, std::uint32_t c) {
                    return for_node(sums.at({nodes_.at(node, rail), rail}), rail, c);
                  },
                  [this, rail](Rank node, std::uint32_t) {
                    return nodes_.has(node, rail) ? Region{out(0)} : Region{};
                  }};
    });
  }

  /// Of what is held for the nodes that `rail` ends at, what is for `node`.
  Region for_node(const Region& held, Rank rail, std::uint32_t node) const {
    if (!nodes_.has(static_cast<Rank>(node), rail)) return {};
    return nth(held, number(nodes_.ends_before(static_cast<Rank>(node), rail)));
  }

  Status all_to_all() {
    // At each rank, what the ranks of its node have for the nodes that its rails end at.
    std::vector<Held> from;  // by local number of who it is from
    from.reserve(static_cast<std::size_t>(nodes_.rails()));
    for (Rank local = 0; local < nodes_.rails(); ++local)
      from.push_back(hold_rails([this](Rank rail) { return blocks_of_rail(Space::kInput, rail); }));
    TUTTI_TRY(inside_nodes(
        leaves_.moves, {.collective = Collective::kAllToAll},
        [this](Rank node, Rank, std::uint32_t c) {
          return blocks_of_rails_at(Space::kInput, node, c);
        },
        [&](Rank node, Rank m, std::uint32_t c) { return all_held(from[c], node, m); }));
    return on_rails(0, false, [&](Rank rail) {
      return Part{
          nodes_.along(rail),
          [this, rail, &from](Rank node, std::uint32_t c) {
            Region all;
            for (Rank local = 0; local < nodes_.size(node); ++local)
              append(all, for_node(from[number(local)].at({nodes_.at(node, rail), rail}), rail, c));
            return all;
          },
          [this, rail](Rank node, std::uint32_t c) {
            return nodes_.has(node, rail) ? whole_.blocks_of(static_cast<Rank>(c), Space::kOutput)
                                          : Region{};
          }};
    });
  }

  const Request& request_;
  const Leaves& leaves_;
  std::uint32_t per_part_;
  TwoLevels whole_;
  const Nodes& nodes_;
};

bool supports(const Request& request, const Leaves& leaves) {
  if (!well_formed(request) || !has_two_levels(request)) return false;
  if (request.collective == Collective::kGather || request.collective == Collective::kScatter)
    return false;
  Request on_rail{.collective = request.collective,
                  .ranks = static_cast<std::int32_t>(ir::nodes_of(request.layout).size())};
  if (!leaves.between.supports(on_rail)) return false;
  on_rail.in_place = request.collective == Collective::kAllReduce ||
                     request.collective == Collective::kBroadcast || request.in_place;
  return leaves.between.supports(on_rail);
}

/// The chunks into which the algorithm between nodes cuts a vector.
Result<std::uint32_t> chunks_between(const Request& request, const Leaves& leaves) {
  const auto nodes = static_cast<std::int32_t>(ir::nodes_of(request.layout).size());
  TUTTI_ASSIGN(const ir::Schedule schedule,
               leaves.between.generate({.collective = request.collective, .ranks = nodes}));
  return schedule.chunks_per_block;
}

}  // namespace hierarchical_parts

ir::Algorithm hierarchical(std::string_view name, std::string_view summary, const Leaves& leaves) {
  using namespace hierarchical_parts;
  return {.name = name,
          .summary = summary,
          .supports = [leaves](const Request& request) { return supports(request, leaves); },
          .generate = [leaves, name](const Request& request) -> Result<ir::Schedule> {
            if (!supports(request, leaves)) return unsupported(name, request);
            TUTTI_ASSIGN(const std::uint32_t per_part, chunks_between(request, leaves));
            return Writer(request, leaves, name, per_part).run();
          }};
}

}  // namespace tutti::algorithms
