#include "algorithms/forest.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/ir/verify.hpp"
#include "src/topo/forest/sample_networks.hpp"

namespace tutti::algorithms {
namespace {

using ir::Request;
using topo::forest::degraded_ring;
using topo::forest::dgx1;
using topo::forest::Forest;
using topo::forest::grow;
using topo::forest::Network;
using topo::forest::nvswitch_boxes;
using topo::forest::torus;

std::vector<std::pair<std::string, Network>> machines() {
  return {{"2x8", nvswitch_boxes(2, 450, 50)},
          {"DGX-1", dgx1()},
          {"torus 4x4", torus({4, 4})},
          {"ring with a degraded link", degraded_ring(6, 0.5)},
          {"two ranks", torus({2})}};
}

Forest grown(const Network& network, topo::forest::GrowOptions options = {}) {
  auto forest = grow(network, options);
  EXPECT_TRUE(forest) << forest.error().what;
  return forest ? *std::move(forest) : Forest{};
}

/// Proves the schedule, and executes it once for each ordering of steps.
void expect_correct(const Request& request, const Forest& forest) {
  SCOPED_TRACE(fmt::format("{} root {}{}", name_of(request.collective), request.root,
                           request.in_place ? " in place" : ""));
  const auto schedule = forest_schedule(request, forest);
  ASSERT_TRUE(schedule) << schedule.error().what;
  const auto proof = ir::verify(schedule->schedule);
  ASSERT_TRUE(proof) << proof.error().what;
  std::int32_t highest = 0;
  for (const topo::forest::Tree& tree : forest.trees) highest = std::max(highest, height(tree));
  const int passes = request.collective == Collective::kAllReduce ? 2 : 1;
  EXPECT_LE(proof->rounds, static_cast<std::uint32_t>(passes * highest));
}

TEST(ForestSchedule, IsProvedOnSeveralMachines) {
  for (const auto& [name, network] : machines()) {
    SCOPED_TRACE(name);
    const Forest forest = grown(network);
    for (const Collective collective :
         {Collective::kAllGather, Collective::kReduceScatter, Collective::kAllReduce}) {
      for (const bool in_place : {false, true}) {
        expect_correct({collective, forest.ranks, 0, in_place}, forest);
      }
    }
  }
}

TEST(ForestSchedule, IsProvedForEveryRootOfADgx1) {
  const Network network = dgx1();
  for (Rank root = 0; root < 8; ++root) {
    const Forest forest = grown(network, {.root = root});
    for (const bool in_place : {false, true}) {
      expect_correct({Collective::kBroadcast, 8, root, in_place}, forest);
      expect_correct({Collective::kReduce, 8, root, in_place}, forest);
    }
  }
}

TEST(ForestSchedule, SendsNoRankMoreThanItsLinksCarry) {
  // Each A100 sends through 325 GB/s; an all-gather of 16 blocks takes 3/65 s for blocks of 1 GB.
  const Forest forest = grown(nvswitch_boxes(2, 300, 25));
  const auto schedule = forest_schedule({Collective::kAllGather, 16, 0, false}, forest);
  ASSERT_TRUE(schedule);
  EXPECT_EQ(schedule->schedule.chunks_per_block, 13U);
  const auto proof = ir::verify(schedule->schedule);
  ASSERT_TRUE(proof);
  EXPECT_LE(proof->max_chunks_sent, 13U * 15U);
}

TEST(ForestSchedule, GivesLongWaysMoreLanesButNotHopsFromARootToALeaf) {
  const Forest forest = grown(topo::forest::dgx2_boxes(), {.root = {}, .direct_hops_first = true});
  const Request request{Collective::kAllGather, forest.ranks, 0, false};
  const auto schedule = forest_schedule(request, forest, 2);
  ASSERT_TRUE(schedule) << schedule.error().what;
  EXPECT_EQ(schedule->schedule.chunks_per_block, 2U);
  const auto proof = ir::verify(schedule->schedule);
  EXPECT_TRUE(proof) << proof.error().what;
  // In its box each root sends to 15 neighbours, of which those that send on have two lanes.
  std::set<std::pair<Rank, Rank>> single;
  for (const LaneRoute& route : schedule->routes) {
    EXPECT_TRUE(route.route.weight == 1 || route.route.weight == 2);
    if (route.route.weight == 2) single.emplace(route.from, route.to);
  }
  std::size_t leaves = 0;
  for (const topo::forest::Tree& tree : forest.trees)
    for (const topo::forest::Hop& hop : tree.hops) {
      const bool sends = std::ranges::any_of(
          tree.hops, [&](const topo::forest::Hop& next) { return next.from == hop.to; });
      if (hop.from != tree.root || sends) continue;
      EXPECT_TRUE(single.contains({hop.from, hop.to}));
      ++leaves;
    }
  EXPECT_EQ(single.size(), leaves);
}

TEST(ForestSchedule, OfOneRankCopies) {
  topo::forest::NetworkBuilder build;
  build.computes("alone");
  const Forest forest = grown(std::move(build).finish());
  const auto schedule = forest_schedule({Collective::kAllGather, 1, 0, false}, forest);
  ASSERT_TRUE(schedule);
  EXPECT_TRUE(ir::verify(schedule->schedule));
}

TEST(ForestSchedule, RefusesAForestOfOtherRanksOrRoots) {
  const Forest all = grown(torus({4}));
  const Forest from_one = grown(torus({4}), {.root = 1});
  const auto code = [](const Request& request, const Forest& forest) {
    return forest_schedule(request, forest).error().code;
  };
  EXPECT_EQ(code({Collective::kAllGather, 5, 0, false}, all), Code::kInvalidArgument);
  EXPECT_EQ(code({Collective::kAllGather, 4, 0, false}, from_one), Code::kInvalidArgument);
  EXPECT_EQ(code({Collective::kBroadcast, 4, 1, false}, all), Code::kInvalidArgument);
  EXPECT_EQ(code({Collective::kBroadcast, 4, 2, false}, from_one), Code::kInvalidArgument);
  EXPECT_EQ(code({Collective::kAllToAll, 4, 0, false}, all), Code::kUnsupported);
}

TEST(ForestSchedule, RefusesMoreTreesThanTheVerifierCouldHold) {
  Forest forest = grown(torus({4}));
  forest.trees_per_root = std::int64_t{1} << 40U;
  const auto schedule = forest_schedule({Collective::kAllGather, 4, 0, false}, forest);
  ASSERT_FALSE(schedule);
  EXPECT_NE(schedule.error().what.find("most_trees_per_root of 8192 or less"), std::string::npos)
      << schedule.error().what;
}

}  // namespace
}  // namespace tutti::algorithms
