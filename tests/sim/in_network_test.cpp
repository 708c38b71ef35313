// Times of algorithms for which the network adds and copies, on switches that do: exactly those of
// the formulas, and never below the bounds.
//
//   in_network        all_reduce   alpha + S beta (Sapio et al., "SwitchML", NSDI 2021)
//   ring              all_reduce   2(n-1) alpha + 2S(n-1)/n beta
//   in_network_rails  all_reduce   2 alpha_i + 2S(g-1)/g beta_i  in nodes of g ranks, and
//                                  alpha_o + S/g beta_o          between them
#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "src/ir/verify.hpp"
#include "src/sim/bounds.hpp"
#include "src/sim/simulate.hpp"

namespace tutti::sim {
namespace {

constexpr double kAlpha = 5, kGbs = 25;  // of a switch
/// Its chunks are equal for rings of up to 64 ranks but a few: sizes are rounded to 64 bytes.
constexpr std::size_t kBytes = 64'000'000;

ir::Schedule schedule_of(std::string_view name, const ir::Request& request) {
  for (const ir::Algorithm& algorithm : algorithms::with_in_network()) {
    if (algorithm.name != name) continue;
    auto schedule = algorithm.generate(request);
    EXPECT_TRUE(schedule) << schedule.error().what;
    return schedule ? *std::move(schedule) : ir::Schedule{};
  }
  ADD_FAILURE() << "there is no " << name;
  return {};
}

double time_of(const ir::Schedule& schedule, Fabric& fabric, const SimulateOptions& options = {}) {
  const auto outcome = simulate(schedule, {kBytes, 1}, fabric, {}, options);
  EXPECT_TRUE(outcome) << outcome.error().what;
  return outcome ? outcome->time_us : 0;
}

UniformSwitch::Shape adding_switch(Rank ranks) {
  return {.ranks = ranks,
          .bandwidth = kGbs,
          .latency = kAlpha,
          .aggregation = topo::Aggregation{.trees = 8, .outstanding = 0}};
}

TEST(InNetwork, TakesHalfTheTimeOfARing) {
  for (Rank n = 2; n <= 64; ++n) {
    UniformSwitch fabric(adding_switch(n));
    const ir::Request request{Collective::kAllReduce, n, 0, false};
    EXPECT_NEAR(time_of(schedule_of("in_network", request), fabric), kAlpha + kBytes / kGbs / 1e3,
                1e-6)
        << n << " ranks";
    const double ring = 2 * (n - 1) * (kAlpha + kBytes / kGbs / 1e3 / n);
    // Chunks of a ring differ by up to 64 bytes.
    EXPECT_NEAR(time_of(schedule_of("ring", request), fabric), ring, 2 * n * 64 / kGbs / 1e3)
        << n << " ranks";
  }
}

TEST(InNetwork, OfTenThousandRanksIsMadeAndRunInASecondOrSo) {
  constexpr Rank kRanks = 10'000;
  UniformSwitch fabric(adding_switch(kRanks));
  EXPECT_NEAR(
      time_of(schedule_of("in_network", {Collective::kAllReduce, kRanks, 0, false}), fabric),
      kAlpha + kBytes / kGbs / 1e3, 1e-6);
}

ir::Request on_nodes(Collective collective, Rank nodes, Rank per_node) {
  std::vector<std::int32_t> hosts;
  for (Rank rank = 0; rank < nodes * per_node; ++rank) hosts.push_back(rank / per_node);
  return {
      .collective = collective, .ranks = nodes * per_node, .layout = ir::Layout::of_hosts(hosts)};
}

TwoLevelSwitch::Shape adding_network(Rank nodes, Rank per_node) {
  return {.nodes = nodes,
          .ranks_per_node = per_node,
          .inner_bandwidth = 450,
          .inner_latency = 1,
          .outer_bandwidth = 50,
          .outer_latency = kAlpha,
          .outer_aggregation = topo::Aggregation{.trees = 8, .outstanding = 0}};
}

TEST(InNetworkRails, TakeTheTimeInNodesAndThatBetweenThem) {
  for (const Rank g : {2, 4, 8}) {
    const auto network = adding_network(4, g);
    TwoLevelSwitch fabric(network);
    const ir::Schedule schedule =
        schedule_of("in_network_rails", on_nodes(Collective::kAllReduce, 4, g));
    const double inner = 2.0 * kBytes * (g - 1) / g / network.inner_bandwidth / 1e3;
    const double outer = kBytes / g / network.outer_bandwidth / 1e3;
    EXPECT_NEAR(time_of(schedule, fabric), 2 * network.inner_latency + inner + kAlpha + outer, 0.01)
        << g;
    // In slices they overlap: the slower one is left, and what the pipeline needs to fill.
    constexpr double kSlices = 20;
    const auto slice = static_cast<std::size_t>(kBytes / g / kSlices);
    const double sliced = time_of(schedule, fabric, {.slice_bytes = slice});
    EXPECT_GE(sliced, std::max(inner, outer));
    EXPECT_LE(sliced, std::max(inner, outer) * (1 + 2 / kSlices) + inner / kSlices +
                          2 * network.inner_latency + kAlpha)
        << g;
  }
}

TEST(InNetworkChains, CarryTheWholeVectorThroughOneLinkOfANode) {
  const auto network = adding_network(4, 4);
  TwoLevelSwitch fabric(network);
  const ir::Schedule schedule =
      schedule_of("in_network_chains", on_nodes(Collective::kAllReduce, 4, 4));
  const double chain = 3 * (network.inner_latency + kBytes / network.inner_bandwidth / 1e3);
  EXPECT_NEAR(time_of(schedule, fabric),
              2 * chain + kAlpha + kBytes / network.outer_bandwidth / 1e3, 0.01);
}

/// Calls test(schedule) for every collective that the in-network algorithms do.
template <class Test>
void for_each_schedule(Rank nodes, Rank per_node, Test&& test) {
  for (const ir::Algorithm& algorithm : algorithms::in_network())
    for (int c = 0; c < static_cast<int>(Collective::kSend); ++c) {
      const ir::Request request = on_nodes(static_cast<Collective>(c), nodes, per_node);
      if (!algorithm.supports(request)) continue;
      const auto schedule = algorithm.generate(request);
      ASSERT_TRUE(schedule) << schedule.error().what;
      SCOPED_TRACE(fmt::format("{} {} of {}x{} ranks", algorithm.name, name_of(request.collective),
                               nodes, per_node));
      test(*schedule);
    }
}

TEST(InNetworkTime, BeatsNoBound) {
  constexpr double kRounding = 1 - 1e-9;
  for (const Rank nodes : {1, 2, 3, 8})
    for (const Rank per_node : {1, 2, 4})
      for_each_schedule(nodes, per_node, [&](const ir::Schedule& schedule) {
        auto network = adding_network(nodes, per_node);
        network.inner_aggregation = topo::Aggregation{};
        const auto uniform = adding_switch(schedule.request.ranks);
        TwoLevelSwitch between(network);
        UniformSwitch one(uniform);
        for (const std::size_t count : {0, 1, 1000, 1'000'000})
          for (const std::size_t slice : {0, 100'000}) {
            const Amount amount = {count, 4};
            const double bytes = size_of_call(schedule.request, amount);
            const auto on_one = simulate(schedule, amount, one, {}, {.slice_bytes = slice});
            const auto on_two = simulate(schedule, amount, between, {}, {.slice_bytes = slice});
            ASSERT_TRUE(on_one) << on_one.error().what;
            ASSERT_TRUE(on_two) << on_two.error().what;
            EXPECT_GE(on_one->time_us,
                      uniform_bound(schedule.request, bytes, uniform).time() * kRounding);
            EXPECT_GE(on_two->time_us,
                      two_level_bound(schedule.request, bytes, network).time() * kRounding);
          }
      });
}

TEST(InNetworkTime, OfNoBytesIsThatOfTheLongestChain) {
  for (const Rank per_node : {1, 2, 4})
    for_each_schedule(3, per_node, [](const ir::Schedule& schedule) {
      const auto proof = ir::verify(schedule);
      ASSERT_TRUE(proof) << proof.error().what;
      UniformSwitch fabric({.ranks = schedule.request.ranks,
                            .latency = 1,
                            .aggregation = topo::Aggregation{.trees = 8, .outstanding = 0}});
      const auto outcome = simulate(schedule, {0, 4}, fabric);
      ASSERT_TRUE(outcome) << outcome.error().what;
      EXPECT_EQ(outcome->time_us, proof->rounds);
      SimulateOptions in_order;
      in_order.rounds = proof->round;
      const auto ordered = simulate(schedule, {0, 4}, fabric, {}, in_order);
      ASSERT_TRUE(ordered) << ordered.error().what;
      EXPECT_GE(ordered->time_us, proof->rounds);
      UniformSwitch one_at_a_time({.ranks = schedule.request.ranks,
                                   .latency = 1,
                                   .aggregation = topo::Aggregation{.trees = 8}});
      in_order.slice_bytes = 4096;
      const auto sliced = simulate(schedule, {100'000, 4}, one_at_a_time, {}, in_order);
      ASSERT_TRUE(sliced) << sliced.error().what;
    });
}

}  // namespace
}  // namespace tutti::sim
