// Holds what is made of two levels to its proof and to its cost, over many layouts.
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "algorithms/hierarchical.hpp"
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
  const bool one_vector = collective == Collective::kAllReduce || rooted(collective);
  return schedule.chunks_per_block *
         (one_vector ? 1 : static_cast<std::uint64_t>(schedule.request.ranks));
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
      const ir::Cost cost = algorithm.cost(request);
      const auto sent = proof->max_chunks_sent * cost.sent_denominator;
      const auto bound = cost.sent_numerator * chunks_in_s(*schedule);
      EXPECT_LE(proof->rounds, cost.rounds);
      if (even) {
        EXPECT_EQ(sent, bound);
      }
      EXPECT_LE(sent, bound);
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
