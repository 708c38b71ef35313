// Calls through a switch that adds, over loopback.
#include <cmath>
#include <cstdint>
#include <latch>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/codec/compression.hpp"
#include "src/comm/compressor.hpp"
#include "tests/collectives/cases.hpp"
#include "tests/collectives/hostile_relay.hpp"
#include "tests/collectives/ranks.hpp"
#include "tests/collectives/switch_thread.hpp"

namespace tutti {
namespace {

using testing::call_of;
using testing::cases_for;
using testing::cases_of;
using testing::make_test_runtimes;
using testing::Placement;
using testing::run_cases;
using testing::run_ranks;
using testing::Runtimes;
using testing::SettingValues;
using testing::SwitchThread;

constexpr std::size_t kManyElements = 40009;

Runtimes through(const SwitchThread& adder, Placement placement, int ranks,
                 const std::string& use = "sum", SettingValues more = {}) {
  SettingValues values = adder.settings();
  values.emplace_back("INNETWORK", use);
  values.insert(values.end(), more.begin(), more.end());
  return make_test_runtimes(placement, ranks, values);
}

class SwitchCalls : public ::testing::TestWithParam<std::tuple<Placement, int>> {};

TEST_P(SwitchCalls, AreRight) {
  const auto [placement, ranks] = GetParam();
  SwitchThread adder;
  std::vector<DataType> types = {DataType::kFloat32, DataType::kUint8};
  if (!kSanitized && ranks == 3)
    types.insert(types.end(),
                 {DataType::kBfloat16, DataType::kFloat16, DataType::kInt32, DataType::kUint32,
                  DataType::kFloat64, DataType::kInt8, DataType::kInt64, DataType::kUint64});
  const auto cases = cases_of(ranks, {kManyElements}, types);
  run_ranks(through(adder, placement, ranks),
            [&](Communicator& communicator) { run_cases(communicator, cases); });
  adder.stop();
  EXPECT_GT(adder.counts().packets.taken, 0U);
  EXPECT_EQ(adder.counts().packets.unauthentic, 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, SwitchCalls,
    ::testing::Values(std::tuple(Placement::kHosts, 2), std::tuple(Placement::kHosts, 3),
                      std::tuple(Placement::kHosts, 5), std::tuple(Placement::kMixed, 4)),
    [](const auto& info) {
      return name_of(std::get<0>(info.param)) + "_" + std::to_string(std::get<1>(info.param));
    });

/// Runs an all-reduce of `value(rank)` everywhere, in place.
std::vector<std::vector<float>> all_reduce(Communicator& communicator, int rounds,
                                           const std::function<float(Rank, int)>& value) {
  std::vector<std::vector<float>> results;
  for (int round = 0; round < rounds; ++round) {
    std::vector<float> data(kManyElements, value(communicator.rank(), round));
    const Status status = communicator.run(call_of(Collective::kAllReduce, data));
    EXPECT_TRUE(status) << status.error().what;
    results.push_back(std::move(data));
  }
  return results;
}

TEST(SwitchCalls, GoOnWithoutASwitchThatDies) {
  constexpr int kRanks = 3, kRounds = 12;
  SwitchThread adder;
  run_ranks(through(adder, Placement::kHosts, kRanks), [&](Communicator& communicator) {
    for (int round = 0; round < kRounds; ++round) {
      if (round == kRounds / 2 && communicator.rank() == 0) adder.stop();
      const auto result = all_reduce(
          communicator, 1, [&](Rank rank, int) { return static_cast<float>(rank + round); });
      ASSERT_EQ(result[0],
                std::vector<float>(kManyElements, static_cast<float>(3 + kRanks * round)));
    }
  });
}

TEST(SwitchCalls, ReturnToASwitchThatIsBack) {
  constexpr int kRanks = 2;
  const std::uint16_t port = SwitchThread().port();
  const auto begin = [&] {
    return std::make_unique<SwitchThread>(in_network::SwitchLimits{}, port);
  };
  auto adder = begin();
  run_ranks(through(*adder, Placement::kHosts, kRanks), [&](Communicator& communicator) {
    std::vector<float> data(kManyElements);
    const auto name = [&] {
      return *communicator.algorithm_for(call_of(Collective::kAllReduce, data));
    };
    EXPECT_EQ(name(), "in_network");
    int calls = 0;
    const auto call = [&] {
      const auto result = all_reduce(communicator, 1, [](Rank rank, int) { return rank + 1.0F; });
      ASSERT_EQ(result[0], std::vector<float>(kManyElements, 3.0F)) << "call " << calls;
      ++calls;
    };
    call();
    if (communicator.rank() == 0) adder.reset();
    while (name() == "in_network") call();
    if (communicator.rank() == 0) adder = begin();
    // The ranks ask after some calls, and the first answer may come too early.
    while (name() != "in_network" && calls < 400) call();
    EXPECT_EQ(name(), "in_network");
    for (int i = 0; i < 3; ++i) call();
  });
}

TEST(SwitchCalls, FallBackForNumbersThatAreNotFiniteAndThenGoOn) {
  SwitchThread adder;
  run_ranks(through(adder, Placement::kHosts, 2), [&](Communicator& communicator) {
    const auto results = all_reduce(communicator, 3, [](Rank rank, int round) {
      if (round == 1 && rank == 1) return std::numeric_limits<float>::infinity();
      return 2.0F;
    });
    EXPECT_EQ(results[0], std::vector<float>(kManyElements, 4.0F));
    EXPECT_EQ(results[1],
              std::vector<float>(kManyElements, std::numeric_limits<float>::infinity()));
    EXPECT_EQ(results[2], std::vector<float>(kManyElements, 4.0F));
    std::vector<float> data(kManyElements);
    EXPECT_EQ(*communicator.algorithm_for(call_of(Collective::kAllReduce, data)), "in_network");
  });
}

/// A rank that makes the same call again needs no look-ups, and must still go where the others go.
TEST(SwitchCalls, GoOnTogetherAfterAFallBackWhenSomeRepeatTheirCall) {
  SwitchThread adder;
  run_ranks(through(adder, Placement::kHosts, 2), [&](Communicator& communicator) {
    std::vector<std::vector<float>> inputs(2, std::vector<float>(kManyElements, 2.0F));
    std::vector<float> sum(kManyElements);
    for (std::size_t round = 0; round < 6; ++round) {
      std::vector<float>& input = inputs[communicator.rank() == 0 ? 0 : round % 2];
      input[7] = round == 1 ? std::numeric_limits<float>::infinity() : 2.0F;
      Call call = call_of(Collective::kAllReduce, input);
      call.recv = sum.data();
      const Status status = communicator.run(call);
      ASSERT_TRUE(status) << status.error().what;
      ASSERT_EQ(sum[8], 4.0F);
      ASSERT_EQ(std::isfinite(sum[7]), round != 1) << round;
    }
    EXPECT_EQ(*communicator.algorithm_for(call_of(Collective::kAllReduce, sum)), "in_network");
  });
}

TEST(SwitchCalls, AreWithinTheStatedBoundAndTheSameOnAllRanks) {
  constexpr int kRanks = 3;
  SwitchThread adder;
  std::vector<std::vector<float>> results(kRanks);
  const auto input = [](Rank rank, std::size_t i) {
    return std::sin(static_cast<float>(i) * 0.37F + static_cast<float>(rank)) *
           std::pow(2.0F, static_cast<float>(i % 7));
  };
  run_ranks(through(adder, Placement::kHosts, kRanks), [&](Communicator& communicator) {
    std::vector<float> data(kManyElements);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = input(communicator.rank(), i);
    const Status status = communicator.run(call_of(Collective::kAllReduce, data));
    ASSERT_TRUE(status) << status.error().what;
    results[static_cast<std::size_t>(communicator.rank())] = std::move(data);
  });
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
  // exponents.hpp: n * F * 2^E / 2^32, and the rounding to float; here 2^E is at most 128, F is 4.
  const double bound = kRanks * 4 * 128 / std::pow(2.0, 32);
  for (std::size_t i = 0; i < kManyElements; ++i) {
    double exact = 0;
    for (Rank rank = 0; rank < kRanks; ++rank) exact += static_cast<double>(input(rank, i));
    ASSERT_NEAR(results[0][i], exact, bound + std::abs(exact) * 0x1p-24) << i;
  }
}

TEST(SwitchCalls, CompressedAsTheEnvironmentAsksSendFewerPackets) {
  const auto packets = [](const std::string& compress) {
    SwitchThread adder;
    SettingValues more;
    if (!compress.empty()) more.emplace_back("COMPRESS", compress);
    run_ranks(through(adder, Placement::kHosts, 2, "sum", more), [&](Communicator& communicator) {
      const auto results =
          all_reduce(communicator, 4, [](Rank rank, int) { return static_cast<float>(rank); });
      for (const auto& result : results)
        for (const float sum : result) ASSERT_NEAR(sum, 1.0F, 0.01F);
    });
    adder.stop();
    return static_cast<double>(adder.counts().packets.taken);
  };
  const double plain = packets("");
  EXPECT_NEAR(packets("all_reduce:bfp16") / plain, 0.5, 0.2);
  EXPECT_NEAR(packets("all_reduce:bfp8") / plain, 0.25, 0.15);
  EXPECT_EQ(packets("all_reduce:int8"), 0) << "not what a network can add";
  EXPECT_EQ(packets("all_reduce:bfp8:rounding=random"), 0);
}

TEST(SwitchCalls, AreRightOverANetworkThatLosesRepeatsChangesAndForgesPackets) {
  std::random_device device;
  const std::uint64_t seed = device();
  RecordProperty("seed", std::to_string(seed));
  SwitchThread adder;
  testing::HostileRelay relay(adder.port(), seed);
  SettingValues values = adder.settings();
  values.front().second = "127.0.0.2:" + std::to_string(adder.port());
  values.emplace_back("INNETWORK", "sum");
  run_ranks(make_test_runtimes(Placement::kHosts, 3, values), [&](Communicator& communicator) {
    const auto results = all_reduce(communicator, kSanitized ? 5 : 40, [](Rank rank, int round) {
      return static_cast<float>(rank * 100 + round);
    });
    for (std::size_t round = 0; round < results.size(); ++round)
      EXPECT_EQ(results[round],
                std::vector<float>(kManyElements, 300 + 3 * static_cast<float>(round)))
          << "seed " << seed;
    std::vector<float> data(kManyElements);
    EXPECT_EQ(*communicator.algorithm_for(call_of(Collective::kAllReduce, data)), "in_network");
  });
  relay.stop();
  adder.stop();
  const testing::HostileRelay::Counts& did = relay.counts();
  for (const std::uint64_t each : {did.lost, did.held, did.repeated, did.changed, did.forged})
    EXPECT_GT(each, 0U);
  const auto& packets = adder.counts().packets;
  EXPECT_GT(packets.flawed, 0U);
  EXPECT_GT(packets.unauthentic, 0U);
}

TEST(SwitchCalls, NameTheRankThatIsLate) {
  SwitchThread adder;
  std::latch other_has_ended(1);
  run_ranks(through(adder, Placement::kHosts, 2, "sum", {{"TIMEOUT", "2"}}),
            [&](Communicator& communicator) {
              all_reduce(communicator, 1, [](Rank, int) { return 1.0F; });
              if (communicator.rank() == 1) return other_has_ended.wait();
              std::vector<float> data(kManyElements);
              const Status status = communicator.run(call_of(Collective::kAllReduce, data));
              other_has_ended.count_down();
              ASSERT_FALSE(status);
              EXPECT_EQ(status.error().code, Code::kTimeout);
              EXPECT_THAT(status.error().what, ::testing::HasSubstr("waits for rank 1"));
            });
}

/// Both ranks compress, one by a handle and one as the environment asks.
TEST(SwitchCalls, ThatDifferAreAnErrorThatShowsBoth) {
  SwitchThread adder;
  run_ranks(through(adder, Placement::kHosts, 2, "sum", {{"COMPRESS", "all_reduce:bfp16"}}),
            [&](Communicator& communicator) {
              Compressor handle(*codec::parse_compression("bfp16"));
              std::vector<float> data(kManyElements, 1.0F);
              Call call = call_of(Collective::kAllReduce, data);
              call.op = ReduceOp::kAvg;
              if (communicator.rank() == 0) call.compressor = &handle;
              const Status status = communicator.run(call);
              ASSERT_FALSE(status);
              EXPECT_THAT(status.error().what, ::testing::HasSubstr("bfp16 by TUTTI_COMPRESS"));
            });
}

/// A name may have several addresses, and the switch listen at one of them.
TEST(SwitchCalls, ReachASwitchByAnyAddressOfItsName) {
  SwitchThread adder;
  SettingValues values = adder.settings();
  values.front().second = "localhost:" + std::to_string(adder.port());
  run_ranks(make_test_runtimes(Placement::kHosts, 2, values), [&](Communicator& communicator) {
    run_cases(communicator, cases_of(2, {kManyElements}, {DataType::kInt32}));
  });
  adder.stop();
  EXPECT_EQ(adder.counts().sessions, 1U);
}

TEST(SwitchCalls, RunWithoutASwitchThatIsNotThere) {
  SettingValues values;
  {
    SwitchThread gone;
    values = gone.settings();
  }
  values.emplace_back("INNETWORK", "sum");
  run_ranks(make_test_runtimes(Placement::kHosts, 2, values), [&](Communicator& communicator) {
    run_cases(communicator, cases_for(2, {kManyElements}));
  });
}

TEST(SwitchCalls, RunWithoutASwitchWhoseKeyIsAnother) {
  SwitchThread adder;
  SettingValues values = adder.settings();
  values.back().second = std::string(64, '3');
  values.emplace_back("INNETWORK", "sum");
  run_ranks(make_test_runtimes(Placement::kHosts, 2, values), [&](Communicator& communicator) {
    run_cases(communicator, cases_for(2, {kManyElements}));
  });
  adder.stop();
  EXPECT_EQ(adder.counts().sessions, 0U);
}

TEST(SwitchCalls, OfSeveralJobsShareASwitchUntilItIsFull) {
  SwitchThread adder({.slots = 32, .sessions = 2, .least_slots = 16});
  const auto job = [&] {
    run_ranks(through(adder, Placement::kHosts, 2), [&](Communicator& communicator) {
      const auto results =
          all_reduce(communicator, 4, [](Rank rank, int) { return static_cast<float>(rank); });
      for (const auto& result : results) ASSERT_EQ(result, std::vector<float>(kManyElements, 1.0F));
    });
  };
  std::vector<std::thread> jobs;
  for (int i = 0; i < 3; ++i) jobs.emplace_back(job);
  for (std::thread& each : jobs) each.join();
  adder.stop();
  EXPECT_GE(adder.counts().sessions, 2U);
  EXPECT_EQ(adder.counts().open_sessions, 0U);
  EXPECT_EQ(adder.counts().free_slots, 32U);
}

}  // namespace
}  // namespace tutti
