#include "tools/train/step_log.hpp"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/train/average.hpp"

namespace tutti::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

RunRecord run() {
  return {.ranks = 2,
          .parameters = 1000,
          .tokens_per_step = 4096,
          .first_step = 1,
          .steps = 30,
          .strategy = "zero3",
          .precision = "fp32",
          .data = "a \"text\""};
}

StepRecord step(std::uint64_t number) {
  return {.step = number,
          .samples = 32 * number,
          .seconds = 1.5,
          .loss = 2.5,
          .average = 2.75,
          .norm = 0.5,
          .rate = 1e-3,
          .tokens_per_second = 8192,
          .times = {.all = 0.5,
                    .forward = 0.125,
                    .backward = 0.25,
                    .waiting = 0.03125,
                    .coding = 0.0625},
          .bytes = {.gathers = 1,
                    .reductions = 2,
                    .replicas = 3,
                    .others = 4,
                    .other_hosts = 5,
                    .uncompressed = 50},
          .memory = {.planned = 10, .counted = 9, .resident = 20},
          .overlap = 0.75,
          .loss_scale = 1024,
          .validation = 2.625,
          .owed = 0.375,
          .sample = "and\n\"so\"",
          .skipped = true};
}

TEST(StepLog, ComesBackAsItWasWritten) {
  const auto log = parse_log(json_line(run()) + json_line(step(1)) + json_line(step(2)));
  ASSERT_TRUE(log) << log.error().what;
  EXPECT_EQ(log->runs, std::vector{run()});
  EXPECT_EQ(log->steps, (std::vector{step(1), step(2)}));
}

TEST(StepLog, KeepsTheLaterOfTwoLinesOfAStep) {
  StepRecord other = step(2);
  other.loss = 1.25;
  const auto log = parse_log(json_line(run()) + json_line(step(1)) + json_line(step(2)) +
                             json_line(step(3)) + json_line(run()) + json_line(other));
  ASSERT_TRUE(log);
  EXPECT_EQ(log->runs.size(), 2U);
  EXPECT_EQ(log->steps, (std::vector{step(1), other}));
}

TEST(StepLog, LeavesOutALastLineThatWasNotFinished) {
  const std::string second = json_line(step(2));
  const auto log =
      parse_log(json_line(run()) + json_line(step(1)) + second.substr(0, second.size() / 2));
  ASSERT_TRUE(log);
  EXPECT_EQ(log->steps.size(), 1U);
}

TEST(StepLog, NamesTheLineThatIsWrong) {
  EXPECT_THAT(parse_log(json_line(run()) + "[1]\n").error().what,
              HasSubstr("line 2: this is no object of JSON"));
  EXPECT_THAT(parse_log(json_line(run()) + "{}\n").error().what,
              HasSubstr("line 2: its step is not a number from 1"));
  EXPECT_THAT(parse_log("{\"step\": 1}\n").error().what, HasSubstr("no log by 'tutti train'"));
  EXPECT_THAT(parse_log("{\"format\": \"tutti-train-log\", \"version\": 9}\n").error().what,
              HasSubstr("of version 9"));
  EXPECT_FALSE(parse_log(""));
  EXPECT_FALSE(parse_log(std::string(100000, '[') + "\n"));
}

TEST(StepLog, WritesWhatIsNoNumberAsNull) {
  StepRecord broken = step(1);
  broken.loss = std::numeric_limits<double>::quiet_NaN();
  broken.norm = std::numeric_limits<double>::infinity();
  const std::string line = json_line(broken);
  EXPECT_THAT(line, AllOf(HasSubstr("\"loss\":null"), HasSubstr("\"norm\":null")));
  EXPECT_TRUE(std::isnan(parse_log(json_line(run()) + line)->steps[0].loss));
}

TEST(StepLine, SaysWhatAStepDid) {
  StepRecord good = step(7);
  good.skipped = false;
  EXPECT_EQ(text_line(good, 30, 372),
            "step 7/30 | loss 2.5000 (avg 2.7500) | norm 0.500 | lr 1.00e-03 | 8192 tok/s | "
            "500 ms: fwd 125 bwd 250 wait 31 opt 0 data 0 | sent 0.0 kB, 0.0 kB to other "
            "hosts instead of 0.1 kB, coding 62 ms | owed 0.375 | hidden 75 % | mem 0.0 kB of 0.0 "
            "kB planned, rss 0.0 kB | scale 1024 | eta 6m12s\n");
  EXPECT_THAT(text_line(good, 0, std::nullopt),
              AllOf(HasSubstr("step 7 |"), Not(HasSubstr("eta"))));
  EXPECT_THAT(text_line(step(7), 30, 1), HasSubstr("SKIPPED"));
}

TEST(DurationText, HasTwoUnits) {
  EXPECT_EQ(duration_text(8.4), "8s");
  EXPECT_EQ(duration_text(61), "1m01s");
  EXPECT_EQ(duration_text(3720), "1h02m");
  EXPECT_EQ(duration_text(-1), "0s");
}

TEST(Average, BeginsWithItsFirstValueAndMovesByItsDecay) {
  Average average{.decay = 0.5};
  average.add(4);
  EXPECT_DOUBLE_EQ(average.value(), 4);
  average.add(1);
  EXPECT_DOUBLE_EQ(average.value(), (0.25 * 4 + 0.5 * 1) / 0.75);
  average.add(std::numeric_limits<double>::quiet_NaN());
  EXPECT_DOUBLE_EQ(average.value(), 2);
}

}  // namespace
}  // namespace tutti::trainer
