#include "src/cost/predict.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ir/builder.hpp"
#include "src/ir/sample_schedules.hpp"

namespace tutti {
namespace {

using ir::in;
using ir::out;
using testing::HasSubstr;

/// Rank 0 sends its vector to rank 1.
ir::Schedule send_on() {
  ir::Builder build({Collective::kBroadcast, 2, 0, false}, "send on", 1);
  build.rank(0).copy(in(0), out(0)).send(in(0), 1);
  build.rank(1).recv(out(0), 0);
  return std::move(build).finish();
}

/// The last of the ranks receives from the others, and adds nothing: each has its own block.
ir::Schedule gather(std::int32_t ranks) {
  ir::Builder build({Collective::kGather, ranks, ranks - 1, false}, "gather", 1);
  const Rank root = ranks - 1;
  for (Rank rank = 0; rank < root; ++rank) {
    build.rank(rank).send(in(0), root);
    build.rank(root).recv(out(static_cast<std::uint32_t>(rank)), rank);
  }
  build.rank(root).copy(in(0), out(static_cast<std::uint32_t>(root)));
  return std::move(build).finish();
}

/// Nothing costs anything but the interface of a host: 1 GB/s, 1000 bytes a microsecond.
Calibration free_of_costs() {
  Calibration calibration;
  calibration.call_us = calibration.step_us = 0;
  calibration.copy_ps_per_byte = calibration.reduce_ps_per_byte = 0;
  calibration.inside = calibration.between = {};
  calibration.between_gbs = 1;
  calibration.cpus_per_host = 8;
  return calibration;
}

double time_of(const ir::Schedule& schedule, std::size_t bytes, std::vector<std::int32_t> host,
               const Calibration& calibration) {
  const auto outcome = predict(schedule, {bytes, 1}, {std::move(host)}, calibration);
  EXPECT_TRUE(outcome) << outcome.error().what;
  return outcome ? outcome->time_us : -1;
}

TEST(Prediction, AddsUpWhatALoneMessageBetweenHostsCosts) {
  Calibration calibration = free_of_costs();
  calibration.call_us = 100;
  calibration.between = {.send_us = 1, .receive_us = 2, .latency_us = 10};
  EXPECT_DOUBLE_EQ(time_of(send_on(), 4000, {0, 1}, calibration), 100 + 1 + 4 + 10 + 2);
}

TEST(Prediction, IsRefusedWhereItWouldTakeMoreTasksThanAreAllowed) {
  PredictOptions options{.slice_bytes = 1000, .most_tasks = 15};
  const auto of = [&](std::size_t bytes) {
    return predict(send_on(), {bytes, 1}, {{0, 1}}, free_of_costs(), options);
  };
  EXPECT_TRUE(of(4000)) << "3 steps in 4 slices, or 5";
  const auto refused = of(5000);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_THAT(refused.error().what, HasSubstr("send on: 3 steps in"));
}

TEST(Prediction, LetsTheSenderStoreAndTheReceiverLoadInsideAHost) {
  Calibration calibration = free_of_costs();
  calibration.inside = {.send_us = 1, .receive_us = 2, .latency_us = 10};
  calibration.copy_ps_per_byte = 1000;  // 1 us for 1000 bytes
  calibration.step_us = 0.5;
  // The sender first copies its vector into its own output, which is the first of its steps.
  EXPECT_DOUBLE_EQ(time_of(send_on(), 4000, {0, 0}, calibration), 4.5 + (1 + 4) + 10 + (2 + 4));
}

TEST(Prediction, SharesTheInterfaceOfAHostAmongItsRanks) {
  const Calibration calibration = free_of_costs();
  EXPECT_DOUBLE_EQ(time_of(gather(3), 4000, {0, 0, 1}, calibration), 8) << "one leaves";
  EXPECT_DOUBLE_EQ(time_of(gather(3), 4000, {0, 1, 2}, calibration), 8) << "one enters";
  EXPECT_DOUBLE_EQ(time_of(gather(3), 4000, {0, 1, 1}, calibration), 4) << "one stays inside";
}

TEST(Prediction, LetsRanksTakeTurnsAtTheCpusOfTheirHost) {
  Calibration calibration = free_of_costs();
  calibration.between.send_us = 10;
  calibration.cpus_per_host = 3;
  EXPECT_DOUBLE_EQ(time_of(gather(4), 0, {0, 0, 0, 1}, calibration), 10);
  calibration.cpus_per_host = 2;
  EXPECT_DOUBLE_EQ(time_of(gather(4), 0, {0, 0, 0, 1}, calibration), 20);
  calibration.cpus_per_host = 1;
  EXPECT_DOUBLE_EQ(time_of(gather(4), 0, {0, 0, 0, 1}, calibration), 30);
}

TEST(Prediction, CutsMessagesAsTheExecutorDoes) {
  // Slices of 256 KiB, which are received while the next ones are on the way.
  Calibration calibration = free_of_costs();
  calibration.between.receive_us = 1;
  const double slice = 262.144;
  EXPECT_NEAR(time_of(send_on(), 4 << 18, {0, 1}, calibration), 4 * slice + 1, 1e-6);
  calibration.between.receive_us = 1000;
  EXPECT_NEAR(time_of(send_on(), 4 << 18, {0, 1}, calibration), slice + 4 * 1000, 1e-6);
}

TEST(Prediction, LetsARankKeepTheExecutorsOrderOfSteps) {
  // The root copies its own block, that of a rank far away, and that of its neighbour: 5 us each.
  const ir::Schedule schedule = ir::samples::gather_in_turn();
  Calibration calibration = free_of_costs();
  calibration.step_us = 5;
  calibration.between.latency_us = 10;
  EXPECT_DOUBLE_EQ(time_of(schedule, 0, {0, 1, 0}, calibration), 10 + 5 + 5);
  const auto any_order =
      predict(schedule, {0, 1}, {.host = {0, 1, 0}}, calibration, {.slice_bytes = 0});
  ASSERT_TRUE(any_order) << any_order.error().what;
  EXPECT_DOUBLE_EQ(any_order->time_us, 5 + 5 + 5);
}

TEST(Prediction, LetsASenderWorkOnTheNextMessageWhileOneFlows) {
  Calibration calibration = free_of_costs();
  calibration.between.send_us = 100;
  const double slice = 262.144;
  EXPECT_NEAR(time_of(send_on(), 4 << 18, {0, 1}, calibration), 100 + 4 * slice, 1e-6);
  calibration.between.send_us = 1000;
  EXPECT_NEAR(time_of(send_on(), 4 << 18, {0, 1}, calibration), 4 * 1000 + slice, 1e-6);
}

TEST(Prediction, TakesTheLinksOfAFabricThatIsGiven) {
  Calibration calibration = free_of_costs();
  calibration.between = {.send_us = 1, .receive_us = 2, .latency_us = 1000};
  sim::UniformSwitch fabric({.ranks = 2, .bandwidth = 2, .latency = 5});
  const auto outcome = predict(send_on(), {4000, 1}, {.host = {0, 1}}, fabric, calibration);
  ASSERT_TRUE(outcome) << outcome.error().what;
  EXPECT_DOUBLE_EQ(outcome->time_us, 1 + 2 + 5 + 2);
  EXPECT_DOUBLE_EQ(outcome->algorithm_bandwidth, 0.4);
}

TEST(Prediction, RefusesAPlacementOfOtherRanks) {
  const auto outcome = predict(send_on(), {1, 1}, {.host = {0, 0, 0}}, {});
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().what, HasSubstr("the placement 3"));
  const auto host = predict(send_on(), {1, 1}, {.host = {0, -1}}, {});
  ASSERT_FALSE(host);
  EXPECT_THAT(host.error().what, HasSubstr("host -1"));
}

}  // namespace
}  // namespace tutti
