// Calls through trees of switches that add, over loopback.
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/collectives/cases.hpp"
#include "tests/collectives/hostile_relay.hpp"
#include "tests/collectives/ranks.hpp"
#include "tests/collectives/switch_thread.hpp"

namespace tutti {
namespace {

using testing::call_of;
using testing::cases_of;
using testing::make_test_runtimes;
using testing::Placement;
using testing::run_cases;
using testing::run_ranks;
using testing::Runtimes;
using testing::SettingValues;
using testing::SwitchThread;

constexpr std::size_t kElements = 40009;

/// Ranks on hosts of their own, each at its switch.
Runtimes at(const std::vector<const SwitchThread*>& switches) {
  Runtimes runtimes;
  for (const SwitchThread* const each : switches) {
    SettingValues values = each->settings();
    values.emplace_back("INNETWORK", "sum");
    runtimes.push_back(make_test_runtimes(Placement::kHosts, 1, values).front());
  }
  return runtimes;
}

void run_all_cases(const Runtimes& runtimes, const std::vector<DataType>& types) {
  const auto cases = cases_of(static_cast<std::int32_t>(runtimes.size()), {kElements}, types);
  run_ranks(runtimes, [&](Communicator& communicator) { run_cases(communicator, cases); });
}

/// An all-reduce that is right, with or without a switch.
void add_up(Communicator& communicator, int ranks, int round) {
  std::vector<float> data(kElements, static_cast<float>(communicator.rank() + round));
  const Status status = communicator.run(call_of(Collective::kAllReduce, data));
  ASSERT_TRUE(status) << status.error().what;
  const int sum = ranks * (ranks - 1) / 2 + ranks * round;
  ASSERT_EQ(data, std::vector<float>(kElements, static_cast<float>(sum))) << "round " << round;
}

std::string algorithm_of(Communicator& communicator) {
  std::vector<float> data(kElements);
  return *communicator.algorithm_for(call_of(Collective::kAllReduce, data));
}

TEST(SwitchTrees, AreRightForAllCollectives) {
  SwitchThread top;
  SwitchThread left(SwitchThread::below(top.port())), right(SwitchThread::below(top.port()));
  run_all_cases(at({&left, &right, &right, &left, &right}),
                {DataType::kFloat32, DataType::kBfloat16, DataType::kInt64, DataType::kUint8});
  for (SwitchThread* each : {&left, &right, &top}) {
    each->stop();
    EXPECT_EQ(each->counts().sessions, 1U);
    EXPECT_GT(each->counts().packets.taken, 0U);
    EXPECT_EQ(each->counts().packets.unauthentic, 0U);
  }
}

TEST(SwitchTrees, AreOneSwitchWhereAllRanksReachTheSame) {
  SwitchThread top;
  SwitchThread leaf(SwitchThread::below(top.port()));
  run_all_cases(at({&leaf, &leaf, &leaf}), {DataType::kFloat32});
  top.stop();
  EXPECT_EQ(top.counts().sessions, 0U);
  leaf.stop();
  EXPECT_EQ(leaf.counts().sessions, 1U);
}

TEST(SwitchTrees, AreRightWhereTheTopIsALeafOfItself) {
  const std::uint16_t port = SwitchThread().port();
  SwitchThread top(SwitchThread::below(port, port));
  SwitchThread leaf(SwitchThread::below(port));
  run_all_cases(at({&leaf, &top, &top}), {DataType::kFloat32});
  top.stop();
  EXPECT_EQ(top.counts().sessions, 2U);
}

TEST(SwitchTrees, SpanSeveralRanksOfEachHost) {
  SwitchThread top;
  SwitchThread left(SwitchThread::below(top.port())), right(SwitchThread::below(top.port()));
  Runtimes runtimes;
  for (const SwitchThread* const each : {&left, &right}) {
    SettingValues values = each->settings();
    values.emplace_back("INNETWORK", "sum");
    values.emplace_back("HOSTID", std::to_string(each->port()));
    const Runtimes own = make_test_runtimes(Placement::kThreads, 2, values);
    runtimes.insert(runtimes.end(), own.begin(), own.end());
  }
  run_ranks(runtimes, [&](Communicator& communicator) {
    EXPECT_EQ(algorithm_of(communicator), "in_network_rails");
    add_up(communicator, 4, 1);
  });
  top.stop();
  EXPECT_EQ(top.counts().sessions, 2U) << "one for each rail";
}

TEST(SwitchTrees, AreRightWhereTheWayUpLosesRepeatsChangesAndForgesPackets) {
  std::random_device device;
  const std::uint64_t seed = device();
  RecordProperty("seed", std::to_string(seed));
  SwitchThread top;
  testing::HostileRelay relay(top.port(), seed);
  in_network::ServerOptions below = SwitchThread::below(top.port());
  below.above.address = {127, 0, 0, 2};
  SwitchThread left(below), right(below);
  run_ranks(at({&left, &right, &right}), [&](Communicator& communicator) {
    for (int round = 0; round < (kSanitized ? 5 : 40); ++round) add_up(communicator, 3, round);
    EXPECT_EQ(algorithm_of(communicator), "in_network") << "seed " << seed;
  });
  relay.stop();
  const testing::HostileRelay::Counts& did = relay.counts();
  for (const std::uint64_t each : {did.lost, did.held, did.repeated, did.changed, did.forged})
    EXPECT_GT(each, 0U);
  for (SwitchThread* each : {&left, &right, &top}) {
    each->stop();
    EXPECT_GT(each->counts().packets.flawed, 0U);
    EXPECT_GT(each->counts().packets.unauthentic, 0U);
  }
}

/// Calls of five ranks at two leaves, in whose midst `end` ends a switch.
void go_on_without(const std::function<void(SwitchThread& top, SwitchThread& leaf)>& end) {
  constexpr int kRanks = 5, kRounds = 12;
  SwitchThread top;
  SwitchThread left(SwitchThread::below(top.port())), right(SwitchThread::below(top.port()));
  run_ranks(at({&left, &left, &right, &right, &right}), [&](Communicator& communicator) {
    EXPECT_EQ(algorithm_of(communicator), "in_network");
    for (int round = 0; round < kRounds; ++round) {
      if (round == kRounds / 2 && communicator.rank() == 0) end(top, left);
      add_up(communicator, kRanks, round);
    }
    EXPECT_NE(algorithm_of(communicator), "in_network");
  });
  right.stop();
  EXPECT_EQ(right.counts().sessions, 1U);
  EXPECT_EQ(right.counts().open_sessions, 0U);
}

TEST(SwitchTrees, GoOnWithoutATopThatDies) {
  go_on_without([](SwitchThread& top, SwitchThread&) { top.stop(); });
}

TEST(SwitchTrees, GoOnWithoutALeafThatDies) {
  go_on_without([](SwitchThread&, SwitchThread& leaf) { leaf.stop(); });
}

TEST(SwitchTrees, RunWithoutWhereTheTopIsMissing) {
  const std::uint16_t nobody = SwitchThread().port();
  SwitchThread left(SwitchThread::below(nobody)), right(SwitchThread::below(nobody));
  run_ranks(at({&left, &right}), [&](Communicator& communicator) {
    EXPECT_NE(algorithm_of(communicator), "in_network");
    add_up(communicator, 2, 1);
  });
}

}  // namespace
}  // namespace tutti
