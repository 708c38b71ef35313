#include "tools/train/plot.hpp"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

StepLog log_of(std::uint64_t steps) {
  StepLog log{{{.ranks = 2, .parameters = 3'000'000, .strategy = "zero2", .precision = "bf16"}},
              {}};
  for (std::uint64_t step = 1; step <= steps; ++step)
    log.steps.push_back({.step = step,
                         .seconds = static_cast<double>(step),
                         .loss = 5.0 / static_cast<double>(step),
                         .average = 6.0 / static_cast<double>(step),
                         .tokens_per_second = 1000,
                         .times = {.all = 1, .forward = 0.3, .backward = 0.5}});
  return log;
}

TEST(Plot, DrawsLossThroughputAndTimes) {
  StepLog log = log_of(50);
  log.steps[20].validation = 1.5;
  const auto svg = plot_svg(log, "a <run>");
  ASSERT_TRUE(svg) << svg.error().what;
  EXPECT_THAT(
      *svg, AllOf(HasSubstr("<svg"), HasSubstr("</svg>"), HasSubstr("a &lt;run&gt;"),
                  HasSubstr("zero2 on 2 ranks, bf16; 50 steps"), HasSubstr("validation 1.500"),
                  HasSubstr("loss, nats a byte"), HasSubstr("throughput"), HasSubstr("backward")));
}

TEST(Plot, DrawsWhatCompressionSendsAndOwes) {
  StepLog log = log_of(20);
  for (StepRecord& step : log.steps) {
    step.bytes = {.gathers = 4'000'000, .other_hosts = 1'000'000, .uncompressed = 8'000'000};
    step.owed = 0.5;
  }
  const auto svg = plot_svg(log, "run");
  ASSERT_TRUE(svg) << svg.error().what;
  EXPECT_THAT(*svg, AllOf(HasSubstr("to other hosts in a step"), HasSubstr("8.0 times fewer"),
                          HasSubstr("owed 0.5")));
}

TEST(Plot, DrawsALongRunWithNoMorePointsThanCanBeSeen) {
  const auto svg = plot_svg(log_of(100'000), "long");
  ASSERT_TRUE(svg);
  EXPECT_LT(svg->size(), 200'000U);
}

TEST(Plot, LeavesOutLossesThatAreNoNumbers) {
  StepLog log = log_of(10);
  log.steps[3].loss = std::numeric_limits<double>::quiet_NaN();
  const auto svg = plot_svg(log, "run");
  ASSERT_TRUE(svg);
  EXPECT_THAT(*svg, Not(HasSubstr("nan")));
}

TEST(Plot, DrawsWhatALogHasOfTheTimes) {
  StepLog log = log_of(3);
  for (StepRecord& step : log.steps)
    step.times.backward = step.times.data = std::numeric_limits<double>::quiet_NaN();
  const auto svg = plot_svg(log, "run");
  ASSERT_TRUE(svg);
  EXPECT_THAT(*svg, AllOf(HasSubstr("backward"), Not(HasSubstr("nan"))));
}

TEST(Plot, EndsWhateverTheNumbers) {
  for (const double loss : {1e17, 1e20, 1.7e308, -1.7e308, 9e14}) {
    StepLog log = log_of(4);
    log.steps[1].loss = log.steps[1].average = loss;
    log.steps[2].loss = log.steps[2].average = loss + 32;
    log.steps[2].step = 999'999'999'998;
    log.steps[3].step = 999'999'999'999;
    const auto svg = plot_svg(log, "run");
    ASSERT_TRUE(svg) << loss;
    EXPECT_THAT(*svg, AllOf(Not(HasSubstr("nan")), Not(HasSubstr("inf")))) << loss;
    EXPECT_LT(svg->size(), 50'000U) << loss;
  }
}

TEST(Plot, TakesTwoSteps) {
  EXPECT_FALSE(plot_svg(log_of(1), "run"));
  EXPECT_TRUE(plot_svg(log_of(2), "run"));
}

}  // namespace
}  // namespace tutti::trainer
