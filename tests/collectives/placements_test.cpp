// Collectives between threads, processes and hosts, each over the connections that they have there.
#include <tuple>

#include <gtest/gtest.h>

#include "tests/collectives/cases.hpp"
#include "tests/collectives/ranks.hpp"

namespace tutti {
namespace {

using testing::Case;
using testing::cases_for;
using testing::cases_of;
using testing::make_test_runtimes;
using testing::Placement;
using testing::run_cases;
using testing::run_ranks;

TEST(Placements, ReachEachOtherAsTheyShould) {
  struct Reach {
    Placement placement;
    std::vector<std::string> transports;  // of rank 0
    int hosts;
  };
  for (const Reach& expected :
       {Reach{Placement::kThreads, {"threads"}, 1}, Reach{Placement::kProcesses, {"shm"}, 1},
        Reach{Placement::kHosts, {"tcp"}, 5},
        Reach{Placement::kMixed, {"shm", "tcp", "threads"}, 2}})
    run_ranks(make_test_runtimes(expected.placement, 5), [&](Communicator& communicator) {
      EXPECT_EQ(communicator.facts().hosts, expected.hosts);
      if (communicator.rank() != 0) return;
      EXPECT_EQ(communicator.facts().transports, expected.transports);
    });
}

class Placed : public ::testing::TestWithParam<std::tuple<Placement, int>> {
 protected:
  static void run(const std::vector<Case>& cases, const std::string& algorithm = "") {
    const auto [placement, ranks] = GetParam();
    run_ranks(make_test_runtimes(placement, ranks, {{"ALGO", algorithm}}),
              [&](Communicator& communicator) { run_cases(communicator, cases); });
  }
  static std::vector<Case> sums_of(std::vector<Case> cases) {
    std::erase_if(cases, [](const Case& test) { return test.op != ReduceOp::kSum; });
    return cases;
  }
  const int ranks_ = std::get<int>(GetParam());
};

TEST_P(Placed, CollectivesAreRight) {
  run(cases_of(ranks_, {0, 1, 9001}, {DataType::kFloat32, DataType::kUint8}));
}

class PlacedAtLength : public Placed {};

TEST_P(PlacedAtLength, CollectivesOfMegabytesAreRight) {
  run(sums_of(cases_of(ranks_, {kSanitized ? 70'001U : 300'001U}, {DataType::kFloat32})));
}

TEST_P(PlacedAtLength, NamedAlgorithmsAreRight) {
  for (const char* algorithm : {"ring", "double_binary_tree"})
    run(sums_of(cases_for(ranks_, {1, 20'011})), algorithm);
}

class PlacedOnTwoHosts : public Placed {};

TEST_P(PlacedOnTwoHosts, AlgorithmsOfTwoLevelsAreRight) {
  for (const char* algorithm : {"hierarchical_ring", "hierarchical_circulant", "hierarchical_tree",
                                "hierarchical_pairwise", "leader_tree", "leader_doubling"})
    run(sums_of(cases_for(ranks_, {1, 20'011})), algorithm);
}

std::string name_of_placement(const ::testing::TestParamInfo<Placed::ParamType>& info) {
  const auto [placement, ranks] = info.param;
  return testing::name_of(placement) + "_" + std::to_string(ranks);
}
const auto kFew = ::testing::Combine(
    ::testing::Values(Placement::kProcesses, Placement::kHosts, Placement::kMixed),
    ::testing::Values(2, 3, 5));
INSTANTIATE_TEST_SUITE_P(Few, Placed, kFew, name_of_placement);
INSTANTIATE_TEST_SUITE_P(Few, PlacedAtLength, kFew, name_of_placement);
INSTANTIATE_TEST_SUITE_P(Few, PlacedOnTwoHosts,
                         ::testing::Combine(::testing::Values(Placement::kMixed),
                                            ::testing::Values(3, 4, 5, 8)),
                         name_of_placement);
INSTANTIATE_TEST_SUITE_P(Sixteen, Placed,
                         ::testing::Combine(::testing::Values(Placement::kThreads,
                                                              Placement::kMixed),
                                            ::testing::Values(16)),
                         name_of_placement);

}  // namespace
}  // namespace tutti
