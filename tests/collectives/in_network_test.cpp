// Calls that the network runs, and what becomes of them where it refuses or breaks.
#include "src/comm/in_network.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "src/ir/group_operations.hpp"
#include "tests/collectives/cases.hpp"
#include "tests/collectives/memory_trees.hpp"
#include "tests/collectives/ranks.hpp"

namespace tutti {
namespace {

using testing::call_of;
using testing::cases_for;
using testing::make_test_runtimes;
using testing::MemoryAggregation;
using testing::MemoryNetworks;
using testing::Placement;
using testing::run_cases;
using testing::run_ranks;
using testing::Runtimes;
using testing::TreeFault;

constexpr std::size_t kEnough = 20011;  // elements: more than what is worth it

Runtimes with_network(Placement placement, int ranks, const std::string& use,
                      const std::shared_ptr<MemoryNetworks>& networks) {
  const Runtimes runtimes = make_test_runtimes(placement, ranks, {{"INNETWORK", use}});
  for (const auto& runtime : runtimes)
    runtime->aggregation = std::make_unique<MemoryAggregation>(networks);
  return runtimes;
}

class InNetworkCalls : public ::testing::TestWithParam<std::tuple<Placement, int>> {};

TEST_P(InNetworkCalls, AreRight) {
  const auto [placement, ranks] = GetParam();
  const auto networks = std::make_shared<MemoryNetworks>();
  const auto cases = cases_for(ranks, {kEnough, 3 * kEnough + 1});
  run_ranks(with_network(placement, ranks, "sum", networks),
            [&](Communicator& communicator) { run_cases(communicator, cases); });
  EXPECT_GT(networks->completed(), 0U);
}

TEST_P(InNetworkCalls, AreRightWhereverTheNetworkBreaks) {
  const auto [placement, ranks] = GetParam();
  const std::size_t members = placement == Placement::kMixed ? 2 : static_cast<std::size_t>(ranks);
  for (const bool on_delivery : {false, true})
    for (const std::uint64_t operation : {0, 1, 2, 5})
      for (std::size_t place = 0; place < members; ++place) {
        const auto networks =
            std::make_shared<MemoryNetworks>(TreeFault{operation, place, on_delivery});
        run_ranks(with_network(placement, ranks, "sum", networks), [&](Communicator& communicator) {
          for (int round = 0; round < 3; ++round) {
            std::vector<float> data(4 * kEnough, static_cast<float>(communicator.rank() + round));
            std::vector<float> result(data.size());
            Call call = call_of(Collective::kAllReduce, data);
            if (round % 2 == 0) call.recv = result.data();
            const Status status = communicator.run(call);
            ASSERT_TRUE(status) << status.error().what;
            const std::vector<float> sum(
                data.size(), static_cast<float>(ranks * (ranks - 1) / 2 + ranks * round));
            ASSERT_EQ(round % 2 == 0 ? result : data, sum)
                << "operation " << operation << " place " << place << " round " << round;
          }
        });
      }
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, InNetworkCalls,
    ::testing::Values(std::tuple(Placement::kHosts, 2), std::tuple(Placement::kHosts, 3),
                      std::tuple(Placement::kHosts, 5), std::tuple(Placement::kMixed, 4)),
    [](const auto& info) {
      return name_of(std::get<0>(info.param)) + "_" + std::to_string(std::get<1>(info.param));
    });

/// What two ranks on two hosts let the network do of calls of one kind.
std::uint64_t completed_with(const std::string& use, Collective collective, DataType type,
                             ReduceOp op = ReduceOp::kSum) {
  const auto networks = std::make_shared<MemoryNetworks>();
  run_ranks(with_network(Placement::kHosts, 2, use, networks), [&](Communicator& communicator) {
    std::vector<std::int32_t> data(2 * kEnough), result(4 * kEnough);
    Call call = call_of(collective, data);
    call.type = type;
    call.op = op;
    call.recv = result.data();
    const Status status = communicator.run(call);
    ASSERT_TRUE(status) << status.error().what;
  });
  return networks->completed();
}

TEST(InNetworkCalls, AreNoSumsOfFloatsUnlessAskedFor) {
  EXPECT_EQ(completed_with("auto", Collective::kAllReduce, DataType::kFloat32), 0U);
  EXPECT_EQ(completed_with("auto", Collective::kAllReduce, DataType::kFloat32, ReduceOp::kAvg), 0U);
  EXPECT_GT(completed_with("sum", Collective::kAllReduce, DataType::kFloat32), 0U);
  EXPECT_GT(completed_with("auto", Collective::kAllReduce, DataType::kInt32), 0U);
  EXPECT_GT(completed_with("auto", Collective::kAllReduce, DataType::kFloat32, ReduceOp::kMax), 0U);
  EXPECT_GT(completed_with("auto", Collective::kAllGather, DataType::kFloat32), 0U);
  EXPECT_EQ(completed_with("off", Collective::kAllGather, DataType::kFloat32), 0U);
}

TEST(InNetworkCalls, AreNoneThatTheTreesCannotAdd) {
  EXPECT_EQ(completed_with("sum", Collective::kAllReduce, DataType::kInt32, ReduceOp::kProd), 0U);
}

TEST(InNetworkCalls, AreAgreedOnWithRanksThatAreInNoGroup) {
  const auto networks = std::make_shared<MemoryNetworks>();
  run_ranks(with_network(Placement::kMixed, 5, "sum", networks), [&](Communicator& communicator) {
    std::vector<std::int32_t> data(4 * kEnough, 2);
    Call call = call_of(Collective::kAllReduce, data);
    EXPECT_EQ(*communicator.algorithm_for(call), "in_network_rails");
    call.op = ReduceOp::kProd;
    EXPECT_EQ(communicator.algorithm_for(call)->find("in_network"), std::string::npos);
    const Status status = communicator.run(call);
    ASSERT_TRUE(status) << status.error().what;
    EXPECT_EQ(data, std::vector<std::int32_t>(data.size(), 32));
  });
}

/// Nine ranks of each host are more than there may be trees: one tree joins the first ranks of the
/// hosts. So there is none for a root that is another rank, on the ranks that would be in it as on
/// those that would not.
TEST(InNetworkCalls, AreAgreedOnForEveryRootWhereOneRankOfEachHostHasATree) {
  constexpr int kRanks = 18;
  const auto networks = std::make_shared<MemoryNetworks>();
  run_ranks(with_network(Placement::kMixed, kRanks, "sum", networks), [&](Communicator& each) {
    std::vector<std::int32_t> data(4 * kEnough);
    EXPECT_EQ(*each.algorithm_for(call_of(Collective::kAllReduce, data)), "in_network_chains");
    for (const Rank root : {0, 2, 17, 1, 0})
      for (const Collective collective : {Collective::kBroadcast, Collective::kReduce}) {
        std::ranges::fill(data, each.rank() + root);
        Call call = call_of(collective, data);
        call.root = root;
        const auto algorithm = each.algorithm_for(call);
        ASSERT_TRUE(algorithm) << algorithm.error().what;
        EXPECT_EQ(*algorithm == "in_network_chains", root <= 1) << "root " << root;
        const Status status = each.run(call);
        ASSERT_TRUE(status) << status.error().what;
        if (collective == Collective::kReduce && each.rank() != root) continue;
        const int expected = collective == Collective::kReduce
                                 ? kRanks * (kRanks - 1) / 2 + kRanks * root
                                 : 2 * root;
        EXPECT_EQ(data, std::vector<std::int32_t>(data.size(), expected)) << "root " << root;
      }
  });
  EXPECT_GT(networks->completed(), 0U);
}

TEST(InNetworkCalls, RunWithoutItWhereOneRankHasNoTree) {
  const auto networks = std::make_shared<MemoryNetworks>();
  const Runtimes runtimes = with_network(Placement::kHosts, 3, "sum", networks);
  runtimes[1]->aggregation = std::make_unique<MemoryAggregation>(networks, /*refuses=*/true);
  run_ranks(runtimes,
            [&](Communicator& communicator) { run_cases(communicator, cases_for(3, {kEnough})); });
  EXPECT_EQ(networks->completed(), 0U);
}

TEST(InNetworkCalls, RunWithoutItWhereOneRankKnowsOfNone) {
  const auto networks = std::make_shared<MemoryNetworks>();
  const Runtimes runtimes = with_network(Placement::kHosts, 2, "sum", networks);
  runtimes[1]->aggregation.reset();
  run_ranks(runtimes,
            [&](Communicator& communicator) { run_cases(communicator, cases_for(2, {kEnough})); });
  EXPECT_EQ(networks->completed(), 0U);
}

TEST(InNetworkCalls, AreNoneWhereAnotherAlgorithmIsAskedFor) {
  const auto networks = std::make_shared<MemoryNetworks>();
  const Runtimes runtimes =
      make_test_runtimes(Placement::kHosts, 2, {{"INNETWORK", "sum"}, {"ALGO", "ring"}});
  for (const auto& runtime : runtimes)
    runtime->aggregation = std::make_unique<MemoryAggregation>(networks);
  run_ranks(runtimes, [&](Communicator& communicator) {
    run_cases(communicator, cases_for(2, {kEnough}));
    std::vector<float> data(2 * kEnough);
    EXPECT_EQ(*communicator.algorithm_for(call_of(Collective::kAllReduce, data)), "ring");
  });
}

TEST(InNetworkCalls, AddNoFloatsWhereTheOrderIsToBeThatOfRanks) {
  const auto networks = std::make_shared<MemoryNetworks>();
  const Runtimes runtimes =
      make_test_runtimes(Placement::kHosts, 3, {{"INNETWORK", "sum"}, {"DETERMINISTIC", "1"}});
  for (const auto& runtime : runtimes)
    runtime->aggregation = std::make_unique<MemoryAggregation>(networks);
  run_ranks(runtimes, [&](Communicator& communicator) {
    std::vector<float> data(2 * kEnough, 1.0F);
    EXPECT_TRUE(communicator.run(call_of(Collective::kAllReduce, data)));
    EXPECT_EQ(data[7], 3.0F);
  });
  EXPECT_EQ(networks->completed(), 0U);
}

TEST(InNetworkCalls, AreNamedByTheirAlgorithm) {
  const auto networks = std::make_shared<MemoryNetworks>();
  run_ranks(with_network(Placement::kMixed, 4, "sum", networks), [&](Communicator& communicator) {
    std::vector<float> data(2 * kEnough);
    EXPECT_EQ(*communicator.algorithm_for(call_of(Collective::kAllReduce, data)),
              "in_network_rails");
    EXPECT_NE(*communicator.algorithm_for(call_of(Collective::kAllToAll, data)),
              "in_network_rails");
  });
}

TEST(InNetworkCalls, AskTheTreesForTheFormsThatSchedulesHave) {
  for (const ir::Algorithm& algorithm : algorithms::in_network())
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter,
          Collective::kAllGather, Collective::kBroadcast})
      for (const std::vector<std::int32_t>& hosts :
           {std::vector{0, 1, 2}, std::vector{0, 0, 1, 1}, std::vector{0, 0, 0, 1, 1}}) {
        const ir::Request request{.collective = collective,
                                  .ranks = static_cast<std::int32_t>(hosts.size()),
                                  .layout = ir::Layout::of_hosts(hosts)};
        if (!algorithm.supports(request)) continue;
        const auto schedule = algorithm.generate(request);
        ASSERT_TRUE(schedule) << schedule.error().what;
        const auto groups = ir::group_operations(*schedule, ir::Membership(*schedule));
        ASSERT_TRUE(groups) << groups.error().what;
        for (const auto& operations : *groups)
          for (const ir::GroupOperation& operation : operations)
            EXPECT_EQ(static_cast<int>(operation.form), static_cast<int>(tree_form_of(collective)))
                << algorithm.name << " " << ir::name_of(operation.form);
      }
}

}  // namespace
}  // namespace tutti
