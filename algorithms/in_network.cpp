// In the network: a switch, or a tree of switches, adds what all ranks send to it and multicasts
// the sum. A rank sends its data once and receives the result once.
//
// Words: the ranks are one group (src/ir/schedule.hpp), which holds one tree of the network.
//
//   collective       rounds   bytes sent by a rank   received
//   all_reduce       1        S                      S
//   reduce_scatter   1        S                      S/n
//   all_gather       1        S/n                    S, or S (n-1)/n: the own part may stay away
//   broadcast        1        S, the root alone      S, the others
//   reduce           1        S                      S, the root alone
//
// A ring sends 2 S (n-1)/n for an all_reduce, so this takes half the time on links of the same
// speed: T >= S/B, whatever n. Reduce_scatter and all_gather gain less: a ring's one direction has
// the other's bytes, and only latency and the load of the links between switches fall.
//
// The network adds in any order, so sums of floats may differ from those of other algorithms.
//
// Sources: Graham et al., "SHARP" (COM-HPC 2016); Sapio et al., "SwitchML" (NSDI 2021).
#include <algorithm>
#include <numeric>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "algorithms/hierarchical.hpp"
#include "algorithms/member.hpp"

namespace tutti::algorithms {
namespace in_network_parts {

/// All ranks.
ir::GroupId everyone(Member& me) {
  std::vector<Rank> ranks(me.ranks);
  std::iota(ranks.begin(), ranks.end(), Rank{0});
  return me.program.group(ranks);
}

void all_reduce(Member& me) { me.program.group_reduce(in(0), out(0), everyone(me)); }

void reduce_scatter(Member& me) {
  me.program.group_reduce(in(0, chunk_of(me.ranks)), out(0), everyone(me));
}

void all_gather(Member& me) {
  me.program.multicast(in(0), out(0, chunk_of(me.ranks)), everyone(me));
}

void broadcast(Member& me) {
  if (!me.is_root()) {
    me.program.multicast({}, out(0), everyone(me));
    return;
  }
  me.program.multicast(in(0), {}, everyone(me));
  me.program.copy(in(0), out(0));
}

void reduce(Member& me) {
  me.program.group_reduce(in(0), me.is_root() ? out(0) : ChunkSet{}, everyone(me));
}

RankProgram program_of(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return all_reduce;
    case Collective::kReduceScatter:
      return reduce_scatter;
    case Collective::kAllGather:
      return all_gather;
    case Collective::kBroadcast:
      return broadcast;
    case Collective::kReduce:
      return reduce;
    default:
      return nullptr;
  }
}

bool supports(const ir::Request& request) {
  return well_formed(request) && program_of(request.collective) != nullptr;
}

Result<ir::Schedule> generate(const ir::Request& request) {
  if (!supports(request)) return unsupported("in_network", request);
  return generate(request, "in_network", 1, program_of(request.collective));
}

ir::Algorithm one_level() {
  return {.name = "in_network",
          .summary = "the network adds, or copies, for all ranks",
          .supports = supports,
          .generate = generate};
}

/// Nodes of one size, with ranks in order: then the blocks of a rail are one set of chunks.
bool is_regular(const ir::Layout& layout) {
  const auto nodes = ir::nodes_of(layout);
  return std::ranges::is_sorted(layout.cells) && std::ranges::all_of(nodes, [&](const auto& node) {
           return node.size() == nodes.front().size();
         });
}

/// Vectors are cut as the algorithm likes. Blocks are not: those of one operation have to lie
/// regularly.
ir::Algorithm regular_where_there_are_blocks(ir::Algorithm algorithm) {
  const auto all = algorithm.supports;
  algorithm.supports = [all](const ir::Request& request) {
    const bool has_blocks = request.collective == Collective::kAllGather ||
                            request.collective == Collective::kReduceScatter;
    return all(request) && (!has_blocks || is_regular(request.layout));
  };
  return algorithm;
}

}  // namespace in_network_parts

std::span<const ir::Algorithm> in_network() {
  using namespace in_network_parts;
  static const ir::Algorithm kAll[] = {
      one_level(),
      regular_where_there_are_blocks(
          hierarchical("in_network_rails", "on all rails: in nodes, in the network, in nodes",
                       {one_shot(), direct(), one_level()})),
      leader("in_network_chains", "a chain in each node, and the network joins their ends",
             {chain(), chain(), one_level()})};
  return kAll;
}

}  // namespace tutti::algorithms
