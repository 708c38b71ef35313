// Exact times of schedules in which the network adds and copies.
#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ir/builder.hpp"
#include "src/ir/verify.hpp"
#include "src/sim/simulate.hpp"

namespace tutti::sim {
namespace {

using ir::in;
using ir::out;
using testing::HasSubstr;

std::vector<Rank> first_ranks(Rank count) {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < count; ++rank) ranks.push_back(rank);
  return ranks;
}

/// One operation of all ranks, or `chunks` of them, one after another without dependencies.
ir::Schedule all_reduce(Rank ranks, std::uint32_t chunks = 1) {
  ir::Builder build({Collective::kAllReduce, ranks, 0, false}, "all_reduce", chunks);
  const ir::GroupId group = build.group(first_ranks(ranks));
  for (Rank rank = 0; rank < ranks; ++rank)
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk)
      build.rank(rank).group_reduce(in(chunk), out(chunk), group);
  return std::move(build).finish();
}

ir::Schedule reduce_scatter(Rank ranks) {
  ir::Builder build({Collective::kReduceScatter, ranks, 0, false}, "reduce_scatter", 1);
  const ir::GroupId group = build.group(first_ranks(ranks));
  for (Rank rank = 0; rank < ranks; ++rank)
    build.rank(rank).group_reduce(in(0, static_cast<std::uint32_t>(ranks)), out(0), group);
  return std::move(build).finish();
}

ir::Schedule all_gather(Rank ranks) {
  ir::Builder build({Collective::kAllGather, ranks, 0, false}, "all_gather", 1);
  const ir::GroupId group = build.group(first_ranks(ranks));
  for (Rank rank = 0; rank < ranks; ++rank)
    build.rank(rank).multicast(in(0), out(0, static_cast<std::uint32_t>(ranks)), group);
  return std::move(build).finish();
}

ir::Schedule broadcast(Rank ranks) {
  ir::Builder build({Collective::kBroadcast, ranks, 0, false}, "broadcast", 1);
  const ir::GroupId group = build.group(first_ranks(ranks));
  build.rank(0).multicast(in(0), {}, group).copy(in(0), out(0));
  for (Rank rank = 1; rank < ranks; ++rank) build.rank(rank).multicast({}, out(0), group);
  return std::move(build).finish();
}

ir::Schedule reduce(Rank ranks) {
  ir::Builder build({Collective::kReduce, ranks, 0, false}, "reduce", 1);
  const ir::GroupId group = build.group(first_ranks(ranks));
  for (Rank rank = 0; rank < ranks; ++rank)
    build.rank(rank).group_reduce(in(0), rank == 0 ? out(0) : ir::ChunkSet{}, group);
  return std::move(build).finish();
}

/// 1 GB/s, which is 1000 bytes a microsecond, and 10 us from rank to rank.
UniformSwitch::Shape adding_switch(Rank ranks, topo::Aggregation aggregation = {}) {
  return {.ranks = ranks, .bandwidth = 1, .latency = 10, .aggregation = aggregation};
}

Outcome outcome_on(Fabric& fabric, const ir::Schedule& schedule, std::size_t count,
                   const Costs& costs = {}, const SimulateOptions& options = {}) {
  const auto outcome = simulate(schedule, {count, 1}, fabric, costs, options);
  EXPECT_TRUE(outcome) << outcome.error().what;
  return outcome ? *outcome : Outcome{};
}

double time_on(const UniformSwitch::Shape& shape, const ir::Schedule& schedule, std::size_t count,
               const Costs& costs = {}, const SimulateOptions& options = {}) {
  UniformSwitch fabric(shape);
  return outcome_on(fabric, schedule, count, costs, options).time_us;
}

TEST(GroupOperations, OfAnAllReduceTakeAlphaPlusBytesTimesBetaWhateverTheNumberOfRanks) {
  for (Rank ranks = 2; ranks <= 64; ++ranks)
    EXPECT_DOUBLE_EQ(time_on(adding_switch(ranks), all_reduce(ranks), 4000), 10 + 4) << ranks;
}

TEST(GroupOperations, OfTenThousandRanksTakeAsLong) {
  EXPECT_DOUBLE_EQ(time_on(adding_switch(10'000), all_reduce(10'000), 4000), 14);
  EXPECT_DOUBLE_EQ(time_on(adding_switch(10'000), all_reduce(10'000), 0), 10);
}

TEST(GroupOperations, LoadLinksWithWhatGoesUpAndComesDown) {
  UniformSwitch fabric(adding_switch(4));
  const auto bytes_on = [&](const ir::Schedule& schedule, LinkId link) {
    return outcome_on(fabric, schedule, 1000).links[link].bytes;
  };
  constexpr LinkId kUp = 0, kDown = 1;  // of rank 0, the root
  constexpr LinkId kOthersUp = 2, kOthersDown = 3;
  EXPECT_EQ(bytes_on(all_reduce(4), kUp), 1000U);
  EXPECT_EQ(bytes_on(all_reduce(4), kDown), 1000U);
  EXPECT_EQ(bytes_on(reduce_scatter(4), kUp), 4000U);
  EXPECT_EQ(bytes_on(reduce_scatter(4), kDown), 1000U);
  EXPECT_EQ(bytes_on(all_gather(4), kUp), 1000U);
  EXPECT_EQ(bytes_on(all_gather(4), kDown), 4000U);
  EXPECT_EQ(bytes_on(broadcast(4), kUp), 1000U);
  EXPECT_EQ(bytes_on(broadcast(4), kDown), 0U);
  EXPECT_EQ(bytes_on(broadcast(4), kOthersUp), 0U);
  EXPECT_EQ(bytes_on(broadcast(4), kOthersDown), 1000U);
  EXPECT_EQ(bytes_on(reduce(4), kOthersUp), 1000U);
  EXPECT_EQ(bytes_on(reduce(4), kDown), 1000U);
  EXPECT_EQ(bytes_on(reduce(4), kOthersDown), 0U);
}

TEST(GroupOperations, TakeTheTimeOfTheLargerDirection) {
  const auto shape = adding_switch(4);
  EXPECT_DOUBLE_EQ(time_on(shape, reduce_scatter(4), 1000), 14);
  EXPECT_DOUBLE_EQ(time_on(shape, all_gather(4), 1000), 14);
  EXPECT_DOUBLE_EQ(time_on(shape, broadcast(4), 1000), 11);
  EXPECT_DOUBLE_EQ(time_on(shape, reduce(4), 1000), 11);
}

TEST(GroupOperations, WaitForEachOtherIfATreeHasOneAtATime) {
  const auto with = [](std::uint32_t outstanding) {
    return time_on(adding_switch(4, {.outstanding = outstanding}), all_reduce(4, 8), 8192);
  };
  EXPECT_DOUBLE_EQ(with(1), 8 * (10 + 1.024));
  EXPECT_DOUBLE_EQ(with(2), 4 * (10 + 1.024) + 1.024) << "one flows while another returns";
  EXPECT_DOUBLE_EQ(with(0), 10 + 8.192);
}

TEST(GroupOperations, OnSlicesFollowEachOtherWithALatencyEach) {
  const auto sliced = [](std::uint32_t outstanding) {
    return time_on(adding_switch(4, {.outstanding = outstanding}), all_reduce(4), 8000, {},
                   {.slice_bytes = 1000});
  };
  EXPECT_DOUBLE_EQ(sliced(1), 8 * (10 + 1));
  EXPECT_DOUBLE_EQ(sliced(0), 10 + 8);
}

TEST(GroupOperations, KeepTheExecutorsOrderAndItsTransfersInFlight) {
  const ir::Schedule schedule = all_reduce(4);
  const auto proof = ir::verify(schedule);
  ASSERT_TRUE(proof) << proof.error().what;
  SimulateOptions options = {.slice_bytes = 1000, .rounds = proof->round};
  EXPECT_DOUBLE_EQ(time_on(adding_switch(4), schedule, 8000, {}, options), 8 * (10 + 1));
  EXPECT_LT(time_on(adding_switch(4, {.outstanding = 0}), schedule, 8000, {}, options),
            8 * (10 + 1));
}

TEST(GroupOperations, WaitForTheSlowestMember) {
  // Ranks come after 2 us of software cost, rank 3 after 20.
  const Costs costs = {.message_us = 2, .slow_ranks = {{3, 10}}};
  EXPECT_DOUBLE_EQ(time_on(adding_switch(4), all_reduce(4), 4000, costs), 20 + 10 + 4);
  // Each of its operations is 20 us late.
  EXPECT_DOUBLE_EQ(time_on(adding_switch(4), all_reduce(4, 3), 3072, costs), 3 * 20 + 10 + 1.024);
}

TEST(GroupOperations, ShareLinksWithMessages) {
  ir::Builder build({Collective::kAllReduce, 2, 0, false}, "both", 1);
  const ir::GroupId group = build.group(first_ranks(2));
  for (Rank rank = 0; rank < 2; ++rank) build.rank(rank).group_reduce(in(0), out(0), group);
  build.rank(0).send(in(0), 1);
  build.rank(1).recv(build.rank(1).scratch(out(0)), 0);
  // Both flow at half the rate on the links of the message.
  EXPECT_DOUBLE_EQ(time_on(adding_switch(2), std::move(build).finish(), 1000), 12);
}

TEST(GroupOperations, RunOnTwoTreesAtTheSameTime) {
  ir::Builder build({Collective::kAllReduce, 4, 0, false}, "halves", 2);
  for (std::uint32_t half = 0; half < 2; ++half) {
    const ir::GroupId group = build.group(first_ranks(4), half);
    for (Rank rank = 0; rank < 4; ++rank) build.rank(rank).group_reduce(in(half), out(half), group);
  }
  const ir::Schedule schedule = std::move(build).finish();
  EXPECT_DOUBLE_EQ(time_on(adding_switch(4, {.trees = 2}), schedule, 8000), 10 + 8);
  UniformSwitch fabric(adding_switch(4, {.trees = 1}));
  const auto outcome = simulate(schedule, {8000, 1}, fabric);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kUnsupported);
  EXPECT_THAT(outcome.error().what, HasSubstr("the switch adds for 1 groups at a time"));
}

TEST(GroupOperations, HaveAtMostTheWindowInARoundTrip) {
  // SwitchML: 128 slots of 1 KiB fill 100 Gb/s for a round trip of 10 us; 64 slots fill half of it.
  const auto rate = [](double slots) {
    UniformSwitch fabric({.ranks = 8,
                          .bandwidth = 12.5,
                          .latency = 10,
                          .aggregation = topo::Aggregation{.window = slots * 1024}});
    const Outcome outcome = outcome_on(fabric, all_reduce(8), 100'000'000);
    EXPECT_EQ(outcome.groups.size(), 1U);
    return 1e8 / (outcome.time_us - 10) / 1e3;
  };
  EXPECT_NEAR(rate(128), 12.5, 1e-6);
  EXPECT_NEAR(rate(64), 64 * 1024 / 10.0 / 1e3, 1e-6);
  EXPECT_NEAR(rate(16), 16 * 1024 / 10.0 / 1e3, 1e-6);
}

TEST(GroupOperations, TellHowMuchOfTheTreesRateTheyUse) {
  UniformSwitch fabric(adding_switch(4, {.rate = 0.5}));
  const Outcome outcome = outcome_on(fabric, all_reduce(4), 45'000);
  EXPECT_DOUBLE_EQ(outcome.time_us, 100);
  EXPECT_EQ(outcome.operations, 1U);
  ASSERT_EQ(outcome.groups.size(), 1U);
  EXPECT_EQ(outcome.groups[0].tree, "switch");
  EXPECT_DOUBLE_EQ(outcome.groups[0].busy_us, 100);
  EXPECT_NEAR(outcome.groups[0].utilisation, 0.9, 1e-9);
  ASSERT_TRUE(outcome.bottleneck);
  EXPECT_NEAR(outcome.links[*outcome.bottleneck].utilisation, 0.45, 1e-9);
}

TEST(GroupOperations, ThatGiveSumsInPartsPassTheSwitchTwice) {
  const auto shape = adding_switch(4, {.sums_in_parts = true});
  EXPECT_DOUBLE_EQ(time_on(shape, all_reduce(4), 4000), 2 * 10 + 4 * 1.25);
  EXPECT_DOUBLE_EQ(time_on(shape, reduce_scatter(4), 1000), 10 + 4);
  EXPECT_DOUBLE_EQ(time_on(shape, all_gather(4), 1000), 10 + 4);
}

TEST(GroupOperations, RunInsideANodeWhereItsSwitchAddsAndElseBetweenNodes) {
  TwoLevelSwitch fabric({.nodes = 2,
                         .ranks_per_node = 2,
                         .inner_bandwidth = 10,
                         .inner_latency = 1,
                         .outer_bandwidth = 1,
                         .outer_latency = 10,
                         .inner_aggregation = topo::Aggregation{},
                         .outer_aggregation = topo::Aggregation{}});
  const auto tree_of = [&](std::vector<Rank> ranks) {
    const ir::Group group = {std::move(ranks)};
    const auto trees = fabric.trees({&group, 1});
    EXPECT_TRUE(trees) << trees.error().what;
    return trees ? trees->front() : NetworkTree{};
  };
  EXPECT_EQ(tree_of({2, 3}).name, "switch of node 1");
  EXPECT_DOUBLE_EQ(tree_of({2, 3}).latency, 1);
  EXPECT_EQ(tree_of({1, 3}).name, "network");
  EXPECT_DOUBLE_EQ(outcome_on(fabric, all_reduce(4), 4000).time_us, 14);
}

TEST(GroupOperations, AreRefusedWhereNothingAddsAndWithPorts) {
  UniformSwitch plain({.ranks = 4});
  const auto nowhere = simulate(all_reduce(4), {1, 1}, plain);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, Code::kUnsupported);
  EXPECT_THAT(nowhere.error().what, HasSubstr("adds nothing"));
  UniformSwitch fabric(adding_switch(4));
  const auto ported = simulate(all_reduce(4), {1, 1}, fabric, {.ports = 1});
  ASSERT_FALSE(ported);
  EXPECT_EQ(ported.error().code, Code::kInvalidArgument);
  EXPECT_THAT(ported.error().what, HasSubstr("the model of 1 ports"));
}

TEST(GroupOperations, RunFromTheFirstByteToTheLatencyAfterTheLast) {
  UniformSwitch fabric(adding_switch(2));
  std::vector<StepTime> steps;
  SimulateOptions options;
  options.on_step = [&](const StepTime& step) { steps.push_back(step); };
  outcome_on(fabric, all_reduce(2), 1000, {.message_us = 3}, options);
  ASSERT_EQ(steps.size(), 2U);
  for (const StepTime& step : steps) {
    EXPECT_DOUBLE_EQ(step.start_us, 3);
    EXPECT_DOUBLE_EQ(step.end_us, 14);
  }
}

/// Operations of random groups, one after another; each rank's may depend on its earlier ones.
struct RandomOperations {
  ir::Schedule schedule;
  std::vector<std::vector<std::uint32_t>> rounds;
};

RandomOperations random_operations(std::mt19937& random) {
  constexpr Rank kRanks = 6;
  constexpr std::uint32_t kOperations = 20;
  const auto below = [&](std::uint32_t bound) {
    return static_cast<std::uint32_t>(random() % bound);
  };
  ir::Builder build({Collective::kAllReduce, kRanks, 0, false}, "random", 1);
  RandomOperations made = {.schedule = {}, .rounds = {kRanks, std::vector<std::uint32_t>{}}};
  std::vector<ir::ChunkSet> last(kRanks, in(0));
  std::vector<std::vector<Rank>> groups;
  for (int i = 0; i < 3; ++i) {
    std::vector<Rank> ranks = first_ranks(kRanks);
    std::ranges::shuffle(ranks, random);
    ranks.resize(2 + below(kRanks - 1));
    groups.push_back(std::move(ranks));
  }
  for (std::uint32_t k = 0; k < kOperations; ++k) {
    const std::vector<Rank>& ranks = groups[below(3)];
    std::uint32_t round = 0;
    for (const Rank rank : ranks)
      for (const std::uint32_t before : made.rounds[static_cast<std::size_t>(rank)])
        round = std::max(round, before);
    const ir::GroupId group = build.group(ranks);
    for (const Rank rank : ranks) {
      ir::ChunkSet& before = last[static_cast<std::size_t>(rank)];
      const ir::ChunkSet sum = build.rank(rank).scratch(out(0));
      build.rank(rank).group_reduce(below(2) == 0 ? before : in(0), sum, group);
      before = sum;
      made.rounds[static_cast<std::size_t>(rank)].push_back(round + 1);
    }
  }
  made.schedule = std::move(build).finish();
  return made;
}

class RandomGroups : public testing::TestWithParam<std::uint32_t> {};

TEST_P(RandomGroups, ComeToAnEndInAnyOrderAndInTheExecutors) {
  std::mt19937 random(GetParam());
  const RandomOperations operations = random_operations(random);
  for (const std::uint32_t outstanding : {0U, 1U, 2U}) {
    UniformSwitch fabric(adding_switch(6, {.trees = 3, .outstanding = outstanding}));
    for (const std::size_t slice : {0, 3000, 8000}) {
      SimulateOptions options = {.slice_bytes = slice};
      const auto free = outcome_on(fabric, operations.schedule, 20'000, {.message_us = 1}, options);
      EXPECT_GT(free.time_us, 10);
      options.rounds = operations.rounds;
      EXPECT_GT(outcome_on(fabric, operations.schedule, 20'000, {.message_us = 1}, options).time_us,
                10);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGroups, testing::Range(0U, 30U));

}  // namespace
}  // namespace tutti::sim
