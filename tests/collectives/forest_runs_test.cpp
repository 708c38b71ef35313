// TUTTI_ALGO=forest: the spanning trees of a machine run in a communicator.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/collectives/cases.hpp"
#include "tests/collectives/ranks.hpp"

namespace tutti {
namespace {

using testing::Case;
using testing::cases_of;
using ::testing::HasSubstr;
using testing::make_test_runtimes;
using testing::Placement;
using testing::run_cases;
using testing::run_ranks;
using testing::Runtimes;

const std::string kCubeMesh = TUTTI_TEST_DATA "/topo/dgx1_v100.xml";

class ForestRuns : public ::testing::TestWithParam<Placement> {};

TEST_P(ForestRuns, OnTheGpusOfATopologyFile) {
  constexpr int kRanks = 8;
  const Runtimes runtimes =
      make_test_runtimes(GetParam(), kRanks, {{"ALGO", "forest"}, {"TOPO_FILE", kCubeMesh}});
  std::vector<Case> cases = cases_of(kRanks, {1000, 40'001}, {DataType::kFloat32});
  run_ranks(runtimes, [&](Communicator& communicator) {
    Call call;
    call.count = 40'001;
    for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather,
                                        Collective::kReduceScatter, Collective::kBroadcast}) {
      call.collective = collective;
      const auto algorithm = communicator.algorithm_for(call);
      ASSERT_TRUE(algorithm) << algorithm.error().what;
      EXPECT_THAT(*algorithm, HasSubstr("forest#"));
    }
    call.collective = Collective::kAllToAll;  // trees cannot
    const auto other = communicator.algorithm_for(call);
    ASSERT_TRUE(other) << other.error().what;
    EXPECT_EQ(other->find("forest"), std::string::npos);
    run_cases(communicator, cases, nullptr);
  });
}

TEST_P(ForestRuns, OnThisMachine) {
  const Runtimes runtimes = make_test_runtimes(GetParam(), 3, {{"ALGO", "all_reduce:forest"}});
  const auto cases = cases_of(3, {40'001}, {DataType::kInt32});
  run_ranks(runtimes, [&](Communicator& communicator) { run_cases(communicator, cases, nullptr); });
}

INSTANTIATE_TEST_SUITE_P(With, ForestRuns,
                         ::testing::Values(Placement::kThreads, Placement::kProcesses,
                                           Placement::kHosts),
                         [](const auto& info) { return testing::name_of(info.param); });

TEST(ForestRuns, OverMoreRanksThanItCanGrowInTimeIsAnErrorThatSaysSo) {
  auto communicators = testing::all_ranks(65, {{"ALGO", "forest"}});
  std::vector<float> data(100'000);
  Call call = testing::call_of(Collective::kAllReduce, data);
  ASSERT_TRUE(communicators[0]->start({&call, 1}));
  const auto outcome = communicators[0]->poll();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kUnsupported);
  EXPECT_THAT(outcome.error().what, HasSubstr("up to 64"));
}

}  // namespace
}  // namespace tutti
