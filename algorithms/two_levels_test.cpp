// Holds what is made of two levels to its proof, and to the cost that its file begins with, over
// many layouts.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "algorithms/hierarchical.hpp"
#include "algorithms/nodes.hpp"
#include "src/ir/verify.hpp"

namespace tutti::algorithms {
namespace {

using ir::Layout;
using ir::Request;

constexpr Collective kGlobal[] = {Collective::kAllReduce,     Collective::kAllGather,
                                  Collective::kReduceScatter, Collective::kBroadcast,
                                  Collective::kReduce,        Collective::kAllToAll};

Layout layout_of(std::string_view text) {
  auto layout = ir::parse_layout(text);
  EXPECT_TRUE(layout) << text;
  return *layout;
}

std::vector<Request> requests_over(const Layout& layout) {
  std::vector<Request> requests;
  const auto ranks = static_cast<std::int32_t>(layout.cells.size());
  for (const Collective collective : kGlobal) {
    for (Rank root = 0; root < (rooted(collective) ? ranks : 1); ++root)
      for (const bool in_place : {false, true})
        requests.push_back({collective, ranks, root, in_place, layout});
  }
  return requests;
}

std::uint64_t chunks_in_s(const ir::Schedule& schedule) {
  const Collective collective = schedule.request.collective;
  const bool one_vector = collective == Collective::kAllReduce ||
                          collective == Collective::kBroadcast || collective == Collective::kReduce;
  return schedule.chunks_per_block *
         (one_vector ? 1 : static_cast<std::uint64_t>(schedule.request.ranks));
}

/// Rounds, and the most bytes that a rank sends, as a share of S.
struct Work {
  std::uint32_t rounds = 0;
  double sent = 0;
};
Work operator+(const Work& a, const Work& b) { return {a.rounds + b.rounds, a.sent + b.sent}; }

/// Of an algorithm of one level, which algorithms_test.cpp holds to what is published.
Work leaf(const ir::Algorithm& algorithm, Collective collective, std::int32_t ranks) {
  const auto schedule = algorithm.generate({.collective = collective, .ranks = ranks});
  EXPECT_TRUE(schedule) << algorithm.name;
  const auto proof = ir::verify(*schedule);
  EXPECT_TRUE(proof) << algorithm.name;
  return {proof->rounds, static_cast<double>(proof->max_chunks_sent) /
                             static_cast<double>(chunks_in_s(*schedule))};
}

/// What runs between nodes, by what the name of an algorithm ends with.
ir::Algorithm between(std::string_view name, Collective collective) {
  if (name.ends_with("_ring")) return ring();
  if (name.ends_with("_circulant")) return circulant();
  if (name.ends_with("_pairwise")) return pairwise();
  if (name.ends_with("_halving")) return rabenseifner();
  if (name.ends_with("_doubling")) return recursive_doubling();
  if (!name.ends_with("_direct")) return double_binary_tree();
  if (collective == Collective::kAllReduce) return two_shot();
  return reduces(collective) ? one_shot() : direct();
}

/// A rank of a small node may be on several rails; then this is a bound.
Work on_all_rails(std::string_view name, const Request& request, const Nodes& nodes) {
  using enum Collective;
  const Collective collective = request.collective;
  const auto inside = [&](const ir::Algorithm& algorithm, Collective what) {
    Work work = leaf(algorithm, what, nodes.rails());
    if (nodes.smallest() < nodes.rails()) work.sent = 2;
    return work;
  };
  Work work;
  if (collective == kAllReduce || collective == kReduceScatter || collective == kReduce)
    work = inside(one_shot(), kReduceScatter);
  if (collective == kBroadcast) work = inside(direct(), kScatter);
  if (collective == kAllToAll) work = inside(direct(), kAllToAll);
  const Rank most_rails = (nodes.rails() + nodes.smallest() - 1) / nodes.smallest();
  const double part = collective == kAllReduce || rooted(collective) ? 1.0 / nodes.rails()
                      : collective == kAllToAll
                          ? static_cast<double>(nodes.rails()) * nodes.count() / request.ranks
                          : static_cast<double>(nodes.count()) / request.ranks;
  Work across = leaf(between(name, collective), collective, nodes.count());
  across.rounds *= static_cast<std::uint32_t>(most_rails);
  across.sent *= part * most_rails;
  if (collective == kReduce) {  // ranks of the root's node gather instead of sending to others
    const Work gathered = inside(direct(), kGather);
    return work + Work{across.rounds + gathered.rounds, std::max(across.sent, gathered.sent)};
  }
  work = work + across;
  if (collective == kAllReduce || collective == kBroadcast || collective == kAllGather)
    work = work + inside(direct(), kAllGather);
  return work;
}

/// The busiest rank is a leader, or hands in its vector.
Work by_leaders(std::string_view name, const Request& request, const Nodes& nodes) {
  const bool chains = name == "tree_over_chains";
  const Collective collective = request.collective;
  Work work = leaf(between(name, collective), collective, nodes.count());
  if (reduces(collective))
    work.rounds += leaf(chains ? chain() : one_shot(), Collective::kReduce, nodes.rails()).rounds;
  if (collective == Collective::kReduce) return {work.rounds, std::max(work.sent, 1.0)};
  return work + leaf(chains ? chain() : direct(), Collective::kBroadcast, nodes.rails());
}

/// All ranks do the same. A copy goes through the dimensions in its own order, and what is left of
/// it shrinks by the extent of each.
Work on_grid(std::string_view name, const Request& request) {
  std::vector<std::uint32_t> extents;
  for (const auto extent : request.layout.extents)
    if (extent > 1) extents.push_back(static_cast<std::uint32_t>(extent));
  const std::size_t copies = name == "torus" ? 2 * extents.size() : 1;
  Work work;
  for (const Collective collective : {Collective::kReduceScatter, Collective::kAllGather}) {
    if (request.collective != Collective::kAllReduce && request.collective != collective) continue;
    for (std::size_t copy = 0; copy < copies; ++copy) {
      double left = 1.0 / static_cast<double>(copies);
      for (std::size_t i = 0; i < extents.size(); ++i) {
        const std::uint32_t extent = extents[(copy + i) % extents.size()];
        const Work line = leaf(ring(), collective, static_cast<std::int32_t>(extent));
        work.sent += left * line.sent;
        if (copy == 0) work.rounds += line.rounds;
        left /= extent;
      }
    }
  }
  return work;
}

/// Nodes take the gateways of another one in turn.
Work through_gateways(const Request& request, const Nodes& nodes) {
  Rank most = 0;
  for (Rank rank = 0; rank < request.ranks; ++rank) {
    const Rank node = nodes.node_of(rank), here = nodes.size(node);
    Rank blocks = here - 1, others = 0;
    for (Rank other = 0; other < nodes.count(); ++other) {
      if (other == node) continue;
      const bool is_gateway = others++ % here == nodes.local_of(rank);
      const Rank there = nodes.size(other);
      blocks += is_gateway ? here * there + (here - 1) * there : there;
    }
    most = std::max(most, blocks);
  }
  return {3, static_cast<double>(most) / request.ranks};
}

Work cost_of(std::string_view name, const Request& request) {
  const Nodes nodes(request.layout);
  if (name == "torus" || name == "blue_connect") return on_grid(name, request);
  if (name == "three_step") return through_gateways(request, nodes);
  return name.starts_with("hierarchical_") ? on_all_rails(name, request, nodes)
                                           : by_leaders(name, request, nodes);
}

class EveryTwoLevelAlgorithm : public testing::TestWithParam<ir::Algorithm> {
 protected:
  /// How many requests over this layout were proved.
  static int prove_all(std::string_view text, bool even) {
    const ir::Algorithm& algorithm = GetParam();
    int proved = 0;
    for (const Request& request : requests_over(layout_of(text))) {
      if (!algorithm.supports(request)) continue;
      SCOPED_TRACE(fmt::format("{} {} over {} root {}{}", algorithm.name,
                               name_of(request.collective), text, request.root,
                               request.in_place ? " in place" : ""));
      const auto schedule = algorithm.generate(request);
      EXPECT_TRUE(schedule) << schedule.error().what;
      if (!schedule) continue;
      const auto proof = ir::verify(*schedule, {.fifo_depth = 1});
      EXPECT_TRUE(proof) << proof.error().what;
      if (!proof) continue;
      ++proved;
      EXPECT_EQ(schedule->request, request);
      EXPECT_EQ(schedule->algorithm, algorithm.name);
      const Work cost = cost_of(algorithm.name, request);
      const double sent =
          static_cast<double>(proof->max_chunks_sent) / static_cast<double>(chunks_in_s(*schedule));
      EXPECT_LE(proof->rounds, cost.rounds);
      EXPECT_LE(sent, cost.sent + 1e-9);
      if (even) {
        EXPECT_NEAR(sent, cost.sent, 1e-9);
      }
    }
    return proved;
  }
};

TEST_P(EveryTwoLevelAlgorithm, IsProvedAndSendsWhatItSaysOverNodesOfOneSize) {
  for (const char* layout : {"2x2", "2x3", "3x2", "4x2", "2x4", "3x4", "4x4", "5x3", "2x8", "8x2"})
    EXPECT_GT(prove_all(layout, true), 0) << layout;
}

TEST_P(EveryTwoLevelAlgorithm, IsProvedOverNodesOfDifferentSizesOrRefusesThem) {
  const bool needs_a_grid = GetParam().name == "blue_connect" || GetParam().name == "torus";
  for (const char* layout : {"2,1", "1,2", "3,2", "1,3,2", "4,1,1", "2,2,3,1", "5,4", "1,1,6"})
    EXPECT_EQ(prove_all(layout, false) == 0, needs_a_grid) << layout;
}

TEST_P(EveryTwoLevelAlgorithm, IsProvedWhereRanksOfNodesInterleave) {
  for (const char* layout : {"2x2:0,2,1,3", "2x3:5,0,4,1,3,2"})
    EXPECT_GT(prove_all(layout, false), 0) << layout;
}

TEST_P(EveryTwoLevelAlgorithm, RefusesWhereNearAndFarAreOne) {
  for (const Layout& layout : {Layout{}, Layout::grid({4}), Layout::grid({1, 4})})
    for (const Collective collective : kGlobal)
      EXPECT_FALSE(GetParam().supports({.collective = collective, .ranks = 4, .layout = layout}));
}

std::vector<ir::Algorithm> two_level_algorithms() {
  std::vector<ir::Algorithm> algorithms;
  const Request probe{.ranks = 4, .layout = Layout::grid({2, 2})};
  for (const ir::Algorithm& algorithm : all()) {
    for (const Collective collective : kGlobal) {
      Request request = probe;
      request.collective = collective;
      Request flat = request;
      flat.layout = {};
      if (!algorithm.supports(request) || algorithm.supports(flat)) continue;
      algorithms.push_back(algorithm);
      break;
    }
  }
  return algorithms;
}

TEST_P(EveryTwoLevelAlgorithm, IsProvedOverGrids) {
  for (const char* layout :
       {"2x2x2", "3x2x4", "4x4x4", "2x1x3", "2x2x2x2", "2x2x2:7,6,5,4,3,2,1,0"})
    EXPECT_GT(prove_all(layout, true), 0) << layout;
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EveryTwoLevelAlgorithm,
                         testing::ValuesIn(two_level_algorithms()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tutti::algorithms
