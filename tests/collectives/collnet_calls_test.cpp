// Calls over CollNet plugins of NCCL: mocks of every version, which reduce over TCP.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/sanitized.hpp"
#include "src/plugin/test_plugins.hpp"
#include "tests/collectives/cases.hpp"
#include "tests/collectives/ranks.hpp"

namespace tutti {
namespace {

using plugin::testing::all_versions;
using plugin::testing::FreshPlugin;
using testing::call_of;
using testing::cases_for;
using testing::cases_of;
using testing::make_test_runtimes;
using testing::Placement;
using testing::run_cases;
using testing::run_ranks;
using testing::Runtimes;
using testing::SettingValues;

constexpr std::size_t kMany = 40009;  // elements: more than what is worth it

/// Ranks that use the plugin; the mock reads its options as it is loaded.
Runtimes through(const FreshPlugin& mock, Placement placement, int ranks,
                 const std::string& trial = "0") {
  return make_test_runtimes(placement, ranks,
                            {{"COLLNET_ENABLE", "1"},
                             {"NET_PLUGIN", mock.file()},
                             {"NET_PLUGIN_TRIAL", trial},
                             {"INNETWORK", "sum"}});
}

bool is_in_network(Communicator& communicator, Collective collective) {
  std::vector<float> data(4 * kMany);
  const auto algorithm = communicator.algorithm_for(call_of(collective, data));
  return algorithm && algorithm->starts_with("in_network");
}

/// `rounds` all-reduces, in place and not; every result is checked.
void all_reduce(Communicator& communicator, int rounds) {
  const int ranks = communicator.size();
  for (int round = 0; round < rounds; ++round) {
    std::vector<float> data(4 * kMany, static_cast<float>(communicator.rank() + round));
    std::vector<float> result(data.size());
    Call call = call_of(Collective::kAllReduce, data);
    if (round % 2 == 0) call.recv = result.data();
    const Status status = communicator.run(call);
    ASSERT_TRUE(status) << status.error().what;
    const std::vector<float> sum(data.size(),
                                 static_cast<float>(ranks * (ranks - 1) / 2 + ranks * round));
    ASSERT_EQ(round % 2 == 0 ? result : data, sum) << "round " << round;
  }
}

class CollnetCalls : public ::testing::TestWithParam<std::tuple<int, Placement, int>> {};

TEST_P(CollnetCalls, AreRight) {
  const auto [version, placement, ranks] = GetParam();
  const FreshPlugin mock(version, "seed=" + std::to_string(version));
  const auto cases = cases_of(ranks, {kMany}, {DataType::kFloat32, DataType::kInt32});
  run_ranks(through(mock, placement, ranks), [&](Communicator& communicator) {
    run_cases(communicator, cases);
    EXPECT_TRUE(is_in_network(communicator, Collective::kAllReduce));
    // Only version 8 and later gather, here where the ranks of a host are in order. None sends one
    // rank's data to all.
    const bool in_order = std::get<1>(GetParam()) == Placement::kHosts;
    EXPECT_EQ(is_in_network(communicator, Collective::kAllGather),
              in_order && std::get<0>(GetParam()) >= 8);
    EXPECT_FALSE(is_in_network(communicator, Collective::kBroadcast));
  });
}

std::vector<std::tuple<int, Placement, int>> versions_and_ranks() {
  std::vector<std::tuple<int, Placement, int>> all;
  for (const int version : all_versions()) all.emplace_back(version, Placement::kHosts, 2);
  for (const int version : {6, 8, 12}) {
    all.emplace_back(version, Placement::kHosts, 3);
    all.emplace_back(version, Placement::kMixed, 4);
  }
  all.emplace_back(11, Placement::kHosts, 5);
  all.emplace_back(9, Placement::kMixed, 5);  // some ranks are in no group
  return all;
}

INSTANTIATE_TEST_SUITE_P(Versions, CollnetCalls, ::testing::ValuesIn(versions_and_ranks()),
                         [](const auto& info) {
                           return "v" + std::to_string(std::get<0>(info.param)) + "_" +
                                  name_of(std::get<1>(info.param)) + "_" +
                                  std::to_string(std::get<2>(info.param));
                         });

/// All-reduces with a plugin that fails somewhere. All are right, and all ranks agree at the end.
/// Whether the network still adds.
bool agree_after(int version, const std::string& options, Placement placement, int ranks) {
  const FreshPlugin mock(version, options);
  std::vector<char> in_network(static_cast<std::size_t>(ranks));
  run_ranks(through(mock, placement, ranks), [&](Communicator& communicator) {
    all_reduce(communicator, 6);
    in_network[static_cast<std::size_t>(communicator.rank())] =
        is_in_network(communicator, Collective::kAllReduce) ? 1 : 0;
  });
  for (const char each : in_network)
    EXPECT_EQ(each, in_network.front()) << "v" << version << " " << options;
  return in_network.front() != 0;
}

TEST(CollnetCalls, GoOnWithoutAPluginThatFailsInTheMiddle) {
  for (const std::string function : {"iallreduce", "test"})
    for (const int call : {1, 2, 5, 9})
      EXPECT_FALSE(agree_after(call % 2 == 0 ? 7 : 12,
                               "fail=coll." + function + ":" + std::to_string(call),
                               Placement::kHosts, call % 2 == 0 ? 2 : 3))
          << function << " " << call;
  EXPECT_FALSE(agree_after(9, "fail=coll.iallreduce:3:2", Placement::kMixed, 4));
}

TEST(CollnetCalls, GoOnWithoutAPluginThatSaysOnlyInItsLogThatItFails) {
  for (const int version : {7, 12})
    EXPECT_FALSE(agree_after(version, "hollow=2", Placement::kHosts, 2)) << version;
}

TEST(CollnetCalls, GoOnWithoutAPluginThatHangsInConnect) {
  const FreshPlugin mock(11, "connect=hang");
  run_ranks(
      through(mock, Placement::kHosts, 2),
      [&](Communicator& communicator) {
        all_reduce(communicator, 2);
        EXPECT_FALSE(is_in_network(communicator, Collective::kAllReduce));
      },
      std::chrono::seconds(kSanitized ? 20 : 4));
}

TEST(CollnetCalls, GoOnWhereTheNetworkIsCut) {
  for (const int operation : {1, 3})
    EXPECT_FALSE(agree_after(10, "seed=3,cut=" + std::to_string(operation), Placement::kHosts, 3));
}

TEST(CollnetCalls, AreRightWhateverFailsAtRandom) {
  // TUTTI_SEEDS: how many.
  const char* const asked = std::getenv("TUTTI_SEEDS");  // NOLINT(concurrency-mt-unsafe)
  const int seeds = asked != nullptr ? std::atoi(asked) : kSanitized ? 3 : 12;
  for (int seed = 1; seed <= seeds && !HasFailure(); ++seed)
    agree_after(6 + seed % 7, "errors=3,unsupported=20,seed=" + std::to_string(seed),
                seed % 4 == 0 ? Placement::kMixed : Placement::kHosts,
                seed % 4 == 0 ? 4 : 2 + seed % 3);
}

TEST(CollnetCalls, RunWithoutAPluginThatDoesNotGetAsFarAsGroups) {
  for (const std::string options :
       {"fail=coll.connect:1", "fail=coll.connect:2", "fail=coll.reduceSupport:1",
        "fail=coll.regMr:2", "fail=coll.init:1", "null=coll.iallreduce", "null=coll.connect",
        "null=coll.init", "devices=0", "props=speed"})
    EXPECT_FALSE(agree_after(9, options, Placement::kHosts, 2)) << options;
}

TEST(CollnetCalls, RunWithoutAPluginThatCrashes) {
  EXPECT_FALSE(([] {
    const FreshPlugin mock(12, "coll.init=crash");
    bool in_network = true;
    run_ranks(through(mock, Placement::kHosts, 2, "1"), [&](Communicator& communicator) {
      all_reduce(communicator, 2);
      if (communicator.rank() == 0)
        in_network = is_in_network(communicator, Collective::kAllReduce);
    });
    return in_network;
  }()));
}

TEST(CollnetCalls, LackWhatThePluginLacks) {
  for (const std::string function : {"iallgather", "ireducescatter"}) {
    const FreshPlugin mock(12, "seed=5,null=coll." + function);
    run_ranks(through(mock, Placement::kHosts, 3), [&](Communicator& communicator) {
      run_cases(communicator, cases_for(3, {kMany}));
      EXPECT_EQ(is_in_network(communicator, Collective::kAllGather), function != "iallgather");
      EXPECT_TRUE(is_in_network(communicator, Collective::kReduceScatter));  // by iallreduce
    });
  }
}

TEST(CollnetCalls, AreNoneUnlessAskedFor) {
  const FreshPlugin mock(11);
  run_ranks(
      make_test_runtimes(Placement::kHosts, 2, {{"NET_PLUGIN", mock.file()}, {"INNETWORK", "sum"}}),
      [&](Communicator& communicator) {
        all_reduce(communicator, 1);
        EXPECT_FALSE(is_in_network(communicator, Collective::kAllReduce));
      });
}

TEST(CollnetCalls, RunWithoutThePluginWhereOneRankHasAnother) {
  const FreshPlugin mock(11);
  Runtimes runtimes = through(mock, Placement::kHosts, 2);
  const FreshPlugin broken(11, "devices=0");
  runtimes[1] = through(broken, Placement::kHosts, 2)[1];
  run_ranks(runtimes, [&](Communicator& communicator) {
    all_reduce(communicator, 2);
    EXPECT_FALSE(is_in_network(communicator, Collective::kAllReduce));
  });
}

}  // namespace
}  // namespace tutti
