// No simulated time of any algorithm beats the lower bounds: one that does is a mistake of the
// simulator, or of the bound.
#include <cstdint>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "src/ir/verify.hpp"
#include "src/sim/bounds.hpp"
#include "src/sim/simulate.hpp"

namespace tutti::sim {
namespace {

constexpr std::size_t kCounts[] = {0, 1, 1000, 1'000'000};  // floats a block
constexpr double kRounding = 1 - 1e-9;

/// Calls test(algorithm, request, schedule) for every algorithm without loss and every collective
/// that it does.
template <class Test>
void for_each_schedule(std::int32_t ranks, Test&& test) {
  for (const ir::Algorithm& algorithm : algorithms::all()) {
    if (algorithm.lossy) continue;
    for (int c = 0; c < static_cast<int>(Collective::kSend); ++c) {
      const ir::Request request{static_cast<Collective>(c), ranks, 0, false};
      if (!algorithm.supports(request)) continue;
      const auto schedule = algorithm.generate(request);
      ASSERT_TRUE(schedule) << schedule.error().what;
      SCOPED_TRACE(
          fmt::format("{} {} of {} ranks", algorithm.name, name_of(request.collective), ranks));
      test(*schedule);
    }
  }
}

class OfRanks : public testing::TestWithParam<std::int32_t> {};
using SimulatedTime = OfRanks;

TEST_P(SimulatedTime, OnASwitchBeatsNoBound) {
  for_each_schedule(GetParam(), [](const ir::Schedule& schedule) {
    const UniformSwitch::Shape network = {.ranks = schedule.request.ranks};
    UniformSwitch fabric(network);
    for (const std::uint32_t ports : {0U, 1U, 2U})
      for (const double reduce : {0.0, 50.0})
        for (const std::size_t count : kCounts) {
          const Amount amount = {count, 4};
          const Costs costs = {.reduce_ps_per_byte = reduce, .ports = ports};
          const auto outcome = simulate(schedule, amount, fabric, costs);
          ASSERT_TRUE(outcome) << outcome.error().what;
          const Bound bound =
              uniform_bound(schedule.request, size_of_call(schedule.request, amount), network,
                            {.ports = ports, .reduce_ps_per_byte = reduce});
          EXPECT_GE(outcome->time_us, bound.time() * kRounding)
              << count << " floats, " << ports << " ports, gamma " << reduce;
        }
  });
}

TEST_P(SimulatedTime, InSlicesBeatsNoBound) {
  for_each_schedule(GetParam(), [](const ir::Schedule& schedule) {
    const UniformSwitch::Shape network = {.ranks = schedule.request.ranks};
    UniformSwitch fabric(network);
    for (const std::uint32_t ports : {0U, 1U}) {
      const Amount amount = {20'000, 4};
      const Costs costs = {.reduce_ps_per_byte = 20, .ports = ports};
      const auto outcome = simulate(schedule, amount, fabric, costs, {.slice_bytes = 4096});
      ASSERT_TRUE(outcome) << outcome.error().what;
      const Bound bound =
          uniform_bound(schedule.request, size_of_call(schedule.request, amount), network,
                        {.ports = ports, .reduce_ps_per_byte = costs.reduce_ps_per_byte});
      EXPECT_GE(outcome->time_us, bound.time() * kRounding) << ports << " ports";
    }
  });
}

TEST_P(SimulatedTime, BetweenNodesBeatsNoBound) {
  for (const std::int32_t per_node : {1, 2, 4}) {
    if (GetParam() % per_node != 0) continue;
    for_each_schedule(GetParam(), [&](const ir::Schedule& schedule) {
      const TwoLevelSwitch::Shape network = {.nodes = schedule.request.ranks / per_node,
                                             .ranks_per_node = per_node};
      TwoLevelSwitch fabric(network);
      for (const std::uint32_t ports : {0U, 1U})
        for (const std::size_t count : kCounts) {
          const Amount amount = {count, 4};
          const auto outcome = simulate(schedule, amount, fabric, {.ports = ports});
          ASSERT_TRUE(outcome) << outcome.error().what;
          const Bound bound = two_level_bound(
              schedule.request, size_of_call(schedule.request, amount), network, {.ports = ports});
          EXPECT_GE(outcome->time_us, bound.time() * kRounding)
              << per_node << " ranks a node, " << count << " floats, " << ports << " ports";
        }
    });
  }
}

TEST_P(SimulatedTime, OfEmptyMessagesIsThatOfTheLongestChainOfThem) {
  for_each_schedule(GetParam(), [](const ir::Schedule& schedule) {
    const auto proof = ir::verify(schedule);
    ASSERT_TRUE(proof) << proof.error().what;
    UniformSwitch fabric({.ranks = schedule.request.ranks, .latency = 1});
    const auto outcome = simulate(schedule, {0, 4}, fabric);
    ASSERT_TRUE(outcome) << outcome.error().what;
    EXPECT_EQ(outcome->time_us, proof->rounds);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SimulatedTime, testing::Values(1, 2, 3, 4, 5, 8, 12, 16, 17),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace tutti::sim
