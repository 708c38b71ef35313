#include "src/sim/simulate.hpp"

#include <algorithm>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ir/builder.hpp"
#include "src/ir/sample_schedules.hpp"
#include "src/ir/verify.hpp"

namespace tutti::sim {
namespace {

using ir::in;
using ir::out;
using testing::HasSubstr;

// 1 GB/s is 1000 bytes a microsecond.
constexpr double kOneGigabyte = 1;

/// Rank 0 sends its blocks to ranks 1 and 2.
ir::Schedule scatter() {
  ir::Builder build({Collective::kScatter, 3, 0, false}, "scatter", 1);
  build.rank(0).send(in(1), 1).send(in(2), 2).copy(in(0), out(0));
  for (const Rank rank : {1, 2}) build.rank(rank).recv(out(0), 0);
  return std::move(build).finish();
}

/// Ranks 1 and 2 send their vectors to rank 0, which adds them up.
ir::Schedule reduce() {
  ir::Builder build({Collective::kReduce, 3, 0, false}, "reduce", 1);
  auto root = build.rank(0);
  root.copy(in(0), out(0));
  for (const Rank rank : {1, 2}) {
    build.rank(rank).send(in(0), 0);
    const ir::ChunkSet landing = root.scratch(out(0));
    root.recv(landing, rank).reduce(landing, out(0));
  }
  return std::move(build).finish();
}

/// Rank 0 sends rank 1 its vector in `chunks` messages on one lane.
ir::Schedule stream(std::uint32_t chunks) {
  ir::Builder build({Collective::kBroadcast, 2, 0, false}, "stream", chunks);
  build.rank(0).copy(in(0, chunks), out(0, chunks));
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    build.rank(0).send(in(chunk), 1);
    build.rank(1).recv(out(chunk), 0);
  }
  return std::move(build).finish();
}

/// Microseconds on a switch of 1 GB/s and 10 us.
double time_of(const ir::Schedule& schedule, std::size_t count, const Costs& costs = {},
               const SimulateOptions& options = {}) {
  UniformSwitch fabric({.ranks = schedule.request.ranks, .bandwidth = kOneGigabyte, .latency = 10});
  const auto outcome = simulate(schedule, {count, 1}, fabric, costs, options);
  EXPECT_TRUE(outcome) << outcome.error().what;
  return outcome ? outcome->time_us : -1;
}

TEST(Simulation, GivesALoneMessageAlphaPlusBytesTimesBeta) {
  EXPECT_DOUBLE_EQ(time_of(stream(1), 1000), 11);
  EXPECT_DOUBLE_EQ(time_of(stream(1), 0), 10);
}

TEST(Simulation, SharesALinkAmongTheMessagesOnIt) {
  EXPECT_DOUBLE_EQ(time_of(scatter(), 1000), 12) << "rank 0 sends 2000 bytes";
  EXPECT_DOUBLE_EQ(time_of(reduce(), 1000), 12) << "rank 0 receives 2000 bytes";
}

TEST(Simulation, OverlapsTheLatencyOfMessagesThatFollowEachOther) {
  EXPECT_DOUBLE_EQ(time_of(stream(4), 4096), 10 + 4.096);
}

TEST(Simulation, LetsRanksThatShareACpuTakeTurns) {
  ir::Builder build({Collective::kAllToAll, 3, 0, false}, "copies", 1);
  for (Rank rank = 0; rank < 3; ++rank) build.rank(rank).copy(in(0), out(0));
  const ir::Schedule copies = std::move(build).finish();
  EXPECT_DOUBLE_EQ(time_of(copies, 0, {.step_us = 20}), 20);
  EXPECT_DOUBLE_EQ(time_of(copies, 0, {.step_us = 20, .cpu_groups = {0, 0, 0}, .cpus = 2}), 40);
  EXPECT_DOUBLE_EQ(time_of(copies, 0, {.step_us = 20, .cpu_groups = {0, 0, 0}}), 60);
  EXPECT_DOUBLE_EQ(time_of(copies, 0, {.step_us = 20, .cpu_groups = {0, 0, 1}}), 40);
}

TEST(Simulation, RefusesGroupsOfCpusThatAreNotOfAllRanks) {
  UniformSwitch fabric({.ranks = 3, .bandwidth = 1, .latency = 10});
  for (const Costs& costs : {Costs{.cpu_groups = {0, 0}}, Costs{.cpu_groups = {0, 0, 3}},
                             Costs{.cpu_groups = {0, 0, 0}, .cpus = 0}}) {
    const auto outcome = simulate(reduce(), {1, 1}, fabric, costs);
    ASSERT_FALSE(outcome);
    EXPECT_THAT(outcome.error().what, HasSubstr("groups of"));
  }
}

TEST(Simulation, WithOnePortLetsMessagesWaitForEachOther) {
  EXPECT_DOUBLE_EQ(time_of(scatter(), 1000, {.ports = 1}), 22);
  EXPECT_DOUBLE_EQ(time_of(scatter(), 1000, {.ports = 2}), 12);
  EXPECT_DOUBLE_EQ(time_of(stream(4), 4096, {.ports = 1}), 40 + 4.096);
}

TEST(Simulation, WithAFifoLetsASenderWaitForItsReceiver) {
  EXPECT_DOUBLE_EQ(time_of(stream(4), 4096, {.fifo_depth = 1}), 40 + 4.096);
  EXPECT_DOUBLE_EQ(time_of(stream(4), 4096, {.fifo_depth = 2}), 20 + 2 * 1.024 + 1.024);
}

TEST(Simulation, ChargesTheSenderForEachMessage) {
  EXPECT_DOUBLE_EQ(time_of(scatter(), 0, {.message_us = 3}), 16);
}

TEST(Simulation, DoesTheWorkOfARankOneAfterAnother) {
  // Both messages arrive after 10 + 2 us; then come two reductions. The copy is over before.
  const Costs costs = {.step_us = 1, .copy_ps_per_byte = 2000, .reduce_ps_per_byte = 4000};
  EXPECT_DOUBLE_EQ(time_of(reduce(), 1000, costs), 12 + 2 * (1 + 4));
}

TEST(Simulation, LetsASlowRankTakeLonger) {
  const Costs costs = {.reduce_ps_per_byte = 4000, .slow_ranks = {{.rank = 0, .factor = 3}}};
  EXPECT_DOUBLE_EQ(time_of(reduce(), 1000, costs), 12 + 2 * 12);
  const Costs others = {.reduce_ps_per_byte = 4000, .slow_ranks = {{.rank = 1, .factor = 3}}};
  EXPECT_DOUBLE_EQ(time_of(reduce(), 1000, others), 12 + 2 * 4);
}

TEST(Simulation, LetsASlowLinkTakeLonger) {
  const LinkId down_to_1 = 3;
  EXPECT_DOUBLE_EQ(time_of(scatter(), 1000, {.slow_links = {{.link = down_to_1, .factor = 4}}}),
                   14);
}

TEST(Simulation, SendsFormattedValuesInFewerBytes) {
  const ir::Schedule schedule =
      ir::samples::direct({Collective::kBroadcast, 2, 0, false}, 1, /*formatted=*/true);
  EXPECT_DOUBLE_EQ(time_of(schedule, 1000, {.formats = {.share = 0.25}}), 10.25);
  const Costs costs = {
      .formats = {.share = 0.25, .encode_ps_per_byte = 2000, .decode_ps_per_byte = 1000}};
  EXPECT_DOUBLE_EQ(time_of(schedule, 1000, costs), 2 + 10.25 + 1)
      << "converting at both ends; the root's own copy comes meanwhile";
}

TEST(Simulation, CopiesBetweenRanksInTheSameMemory) {
  class OneNode final : public Fabric {
   public:
    [[nodiscard]] std::int32_t ranks() const override { return 2; }
    [[nodiscard]] std::span<const Link> links() const override { return {}; }
    [[nodiscard]] Result<std::vector<LinkId>> path(Rank, Rank, Lane) override {
      return std::vector<LinkId>{};
    }
  } fabric;
  const auto outcome = simulate(stream(1), {1000, 1}, fabric, {.copy_ps_per_byte = 500});
  ASSERT_TRUE(outcome) << outcome.error().what;
  EXPECT_DOUBLE_EQ(outcome->time_us, 0.5);
  EXPECT_FALSE(outcome->bottleneck);
}

TEST(Simulation, PassesSlicesOnWhileTheNextAreOnTheWay) {
  // A chain of three hops, one chunk: 3 (alpha + S beta) whole. In four slices the last hop gets
  // its first slice after 3 alpha + 2 S/4 beta, and the others close behind.
  ir::Builder build({Collective::kBroadcast, 4, 0, false}, "chain", 1);
  build.rank(0).send(in(0), 1).copy(in(0), out(0));
  for (const Rank rank : {1, 2}) build.rank(rank).recv(out(0), rank - 1).send(out(0), rank + 1);
  build.rank(3).recv(out(0), 2);
  const ir::Schedule chain = std::move(build).finish();
  EXPECT_DOUBLE_EQ(time_of(chain, 4000), 3 * (10 + 4));
  EXPECT_DOUBLE_EQ(time_of(chain, 4000, {}, {.slice_bytes = 1000}), 3 * 10 + 2 + 4);
}

SimulateOptions in_order_of(const ir::Schedule& schedule) {
  const auto proof = ir::verify(schedule);
  EXPECT_TRUE(proof) << proof.error().what;
  return {.rounds = proof ? proof->round : std::vector<std::vector<std::uint32_t>>()};
}

TEST(OrderOfSteps, LetsARankWaitWhereALaterStepCouldRun) {
  // Messages arrive after 10 + 4 us and 10 + 1 us; each is then copied for 5.
  const ir::Schedule schedule = ir::samples::gather_in_turn();
  const Costs costs = {.message_us = 1, .step_us = 5, .slow_ranks = {{.rank = 1, .factor = 4}}};
  EXPECT_DOUBLE_EQ(time_of(schedule, 0, costs), 11 + 5 + 5);
  EXPECT_DOUBLE_EQ(time_of(schedule, 0, costs, in_order_of(schedule)), 14 + 5 + 5);
}

TEST(OrderOfSteps, LetsARankPostFourSlicesBeforeTheFirstIsGone) {
  ir::Builder build({Collective::kBroadcast, 2, 0, false}, "send and copy", 1);
  build.rank(0).send(in(0), 1).copy(in(0), out(0));
  build.rank(1).recv(out(0), 0);
  const ir::Schedule schedule = std::move(build).finish();
  std::vector<double> copied;
  SimulateOptions options = in_order_of(schedule);
  options.slice_bytes = 1000;
  options.on_step = [&](const StepTime& step) {
    if (step.task.rank == 0 && step.task.step == 1) copied.push_back(step.end_us);
  };
  time_of(schedule, 6000, {}, options);
  EXPECT_THAT(copied, testing::ElementsAre(0, 0, 0, 0, 1, 2));
}

TEST(OrderOfSteps, RefusesRoundsOfOtherSteps) {
  UniformSwitch fabric({.ranks = 3});
  const auto outcome = simulate(scatter(), {10, 1}, fabric, {}, {.rounds = {{0, 0}, {0}, {0}}});
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().what, HasSubstr("rounds of all its steps"));
}

TEST(Outcome, ReportsWhatLinksCarriedAndWhichIsTheNarrowest) {
  UniformSwitch fabric({.ranks = 3, .bandwidth = kOneGigabyte, .latency = 10});
  const auto outcome = simulate(scatter(), {1000, 1}, fabric);
  ASSERT_TRUE(outcome) << outcome.error().what;
  const LinkId up_of_0 = 0;
  const LinkId down_to_2 = 5;
  EXPECT_EQ(outcome->bottleneck, up_of_0);
  EXPECT_EQ(outcome->links[up_of_0].bytes, 2000U);
  EXPECT_DOUBLE_EQ(outcome->links[up_of_0].busy_us, 2);
  EXPECT_DOUBLE_EQ(outcome->links[up_of_0].utilisation, 2.0 / 12);
  EXPECT_EQ(outcome->links[down_to_2].bytes, 1000U);
  EXPECT_DOUBLE_EQ(outcome->links[down_to_2].busy_us, 2);
  EXPECT_EQ(outcome->messages, 2U);
  EXPECT_EQ(outcome->most_bytes_sent, 2000U);
}

TEST(Outcome, HasTheBandwidthsOfNcclTests) {
  UniformSwitch fabric({.ranks = 4, .bandwidth = kOneGigabyte, .latency = 0});
  const ir::Schedule ring = ir::samples::ring_all_reduce(4, false);
  const auto outcome = simulate(ring, {1 << 20, 4}, fabric);
  ASSERT_TRUE(outcome) << outcome.error().what;
  EXPECT_NEAR(outcome->bus_bandwidth, 1, 1e-6);
  EXPECT_NEAR(outcome->algorithm_bandwidth, 4.0 / 6, 1e-6);
  EXPECT_EQ(size_of_call({Collective::kAllGather, 8, 0, false}, {10, 4}), 320);
  EXPECT_EQ(size_of_call({Collective::kBroadcast, 8, 0, false}, {10, 4}), 40);
  EXPECT_EQ(bus_factor({Collective::kAllToAll, 8, 0, false}), 7.0 / 8);
  EXPECT_EQ(bus_factor({Collective::kReduce, 8, 0, false}), 1);
}

TEST(Observers, SeeEveryStepOnceAndInTheOrderOfTheirEnds) {
  const ir::Schedule ring = ir::samples::ring_all_reduce(5, true);
  std::vector<StepTime> steps;
  const SimulateOptions options = {.slice_bytes = 64,
                                   .on_step = [&](const StepTime& step) { steps.push_back(step); }};
  const double time = time_of(ring, 1000, {.reduce_ps_per_byte = 100}, options);
  std::size_t all = 0;
  for (const ir::Program& program : ring.programs) all += program.steps.size();
  EXPECT_EQ(steps.size(), all * 4) << "256 bytes are four slices";
  for (const StepTime& step : steps) EXPECT_LE(step.start_us, step.end_us);
  EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end(),
                             [](const auto& a, const auto& b) { return a.end_us < b.end_us; }));
  EXPECT_EQ(steps.back().end_us, time);
}

TEST(Observers, CanStopASimulation) {
  UniformSwitch fabric({.ranks = 128});
  SimulateOptions options;
  options.on_progress = [](std::uint64_t done, std::uint64_t all) {
    EXPECT_LE(done, all);
    return false;
  };
  const auto outcome =
      simulate(ir::samples::ring_all_reduce(128, true), {1 << 20, 4}, fabric, {}, options);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kAborted);
}

TEST(Simulation, RefusesCostsThatMeanNothing) {
  UniformSwitch fabric({.ranks = 3});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Costs wrong[] = {{.message_us = -1},
                         {.step_us = nan},
                         {.copy_ps_per_byte = 1e300},
                         {.slow_ranks = {{.rank = 3, .factor = 2}}},
                         {.slow_ranks = {{.rank = 0, .factor = 0}}},
                         {.slow_links = {{.link = 6, .factor = 2}}}};
  for (const Costs& costs : wrong) {
    const auto outcome = simulate(scatter(), {10, 1}, fabric, costs);
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, Code::kInvalidArgument);
    EXPECT_THAT(outcome.error().what, HasSubstr("was expected"));
  }
}

TEST(Simulation, RefusesAFabricWithFewerRanksThanTheSchedule) {
  UniformSwitch fabric({.ranks = 2});
  const auto outcome = simulate(scatter(), {10, 1}, fabric);
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().what, HasSubstr("3 ranks"));
}

TEST(Simulation, RefusesALinkWithoutBandwidth) {
  UniformSwitch fabric({.ranks = 3, .bandwidth = 0});
  const auto outcome = simulate(scatter(), {10, 1}, fabric);
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().what, HasSubstr("rank 0 up"));
}

TEST(Simulation, EndsWhereVirtualTimeDoes) {
  UniformSwitch fabric({.ranks = 3, .latency = 1e14});
  const auto outcome = simulate(scatter(), {10, 1}, fabric);
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().what, HasSubstr("virtual time"));
}

TEST(Simulation, NamesASendThatWaitsForEver) {
  // Each rank takes the other's second message before the first: one FIFO place is too few.
  ir::Schedule schedule;
  schedule.request = {Collective::kAllToAll, 2, 0, false};
  schedule.algorithm = "crossed";
  for (const Rank peer : {1, 0}) {
    ir::Program program;
    program.scratch = {0, 0};
    const ir::ChunkSet scratch[] = {{ir::Space::kScratch, 0, 1, 1}, {ir::Space::kScratch, 1, 1, 1}};
    program.steps.push_back({ir::Verb::kSend, in(0), {}, peer, 0, {}});
    program.steps.push_back({ir::Verb::kSend, in(0), {}, peer, 0, {}});
    program.steps.push_back({ir::Verb::kRecv, {}, scratch[1], peer, 0, {1}});
    program.steps.push_back({ir::Verb::kRecv, {}, scratch[0], peer, 0, {}});
    schedule.programs.push_back(std::move(program));
  }
  UniformSwitch fabric({.ranks = 2});
  const auto outcome = simulate(schedule, {10, 1}, fabric, {.fifo_depth = 1});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kInvalidArgument);
  EXPECT_THAT(outcome.error().what, HasSubstr("rank 0 step 1"));
  EXPECT_TRUE(simulate(schedule, {10, 1}, fabric, {.fifo_depth = 2}));
}

class RandomCosts : public testing::TestWithParam<unsigned> {};

TEST_P(RandomCosts, GiveTheSameOutcomeTwiceAndNeverLessThanNone) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  std::mt19937 random(GetParam());
  const auto cost = [&] { return static_cast<double>(random() % 100) / 10; };
  const std::int32_t ranks = 2 + static_cast<std::int32_t>(random() % 6);
  const auto collective = ir::samples::kGlobalCollectives[random() % 8];
  const ir::Schedule schedule = ir::samples::direct({collective, ranks, 0, false}, 3);
  const Costs costs = {.message_us = cost(),
                       .step_us = cost(),
                       .copy_ps_per_byte = cost(),
                       .reduce_ps_per_byte = cost(),
                       .ports = static_cast<std::uint32_t>(random() % 3),
                       .fifo_depth = 1 + static_cast<std::uint32_t>(random() % 3)};
  const std::size_t count = random() % 5000;
  const SimulateOptions options = {.slice_bytes = random() % 2 * 100};
  const double time = time_of(schedule, count, costs, options);
  EXPECT_EQ(time_of(schedule, count, costs, options), time);
  EXPECT_GE(time, time_of(schedule, count, {.ports = costs.ports}) * (1 - 1e-9));
}

TEST_P(RandomCosts, LetRanksThatKeepTheirOrderComeToAnEnd) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  std::mt19937 random(GetParam());
  const std::int32_t ranks = 2 + static_cast<std::int32_t>(random() % 6);
  const auto collective = ir::samples::kGlobalCollectives[random() % 8];
  const ir::Schedule schedule = random() % 2 == 0
                                    ? ir::samples::direct({collective, ranks, 0, false}, 3)
                                    : ir::samples::ring_all_reduce(ranks, false);
  const Costs costs = {.message_us = static_cast<double>(random() % 100) / 10,
                       .reduce_ps_per_byte = static_cast<double>(random() % 100),
                       .ports = static_cast<std::uint32_t>(random() % 3)};
  SimulateOptions options = in_order_of(schedule);
  options.slice_bytes = 1 + random() % 300;
  const std::size_t count = random() % 5000;
  const double time = time_of(schedule, count, costs, options);
  EXPECT_GE(time, 10) << "the latency of a message";
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomCosts, testing::Range(0U, 50U));

}  // namespace
}  // namespace tutti::sim
