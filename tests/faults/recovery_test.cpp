// Failures while a job recovers from failures, and what recovering a thousand times may cost.
#include <csignal>
#include <random>
#include <sstream>

#include <unistd.h>

#include "tests/faults/faults.hpp"

namespace tutti::testing {
namespace {

using ::testing::HasSubstr;

class Recovery : public FaultsOver {
 protected:
  struct Memory {
    int mappings = 0;
    int kilobytes = 0;
  };

  /// n ranks, of which `dead` have died in the middle of operations and all others know.
  void form_and_lose(int ranks, const Ranks& dead) {
    form(ranks);
    enter_operations(job_->all());
    const TimePoint fault = Clock::now();
    for (const int rank : dead) kill(rank);
    expect_remote_error(job_->all_but(dead), dead, fault);
  }
  /// Rank 1 is stopped inside operations, and goes on when the others have given up.
  void stop_inside_and_go_on(const std::string& operations) {
    form(3, {{"TUTTI_LIVENESS", "0.5"}});
    enter_operations(job_->all(), operations);
    (*job_)[1].signal(SIGSTOP);
    const Window in_time{Seconds(0), Seconds(2 * kSlack)};
    expect_remote_error({0, 2}, {1}, Clock::now(), in_time, operations);
    for (const Answer& answer : job_->ask({0, 2}, "fill 7")) EXPECT_TRUE(answer.ok()) << answer;
    (*job_)[1].signal(SIGCONT);
    EXPECT_EQ((*job_)[1].hear(operations).result, ncclRemoteError);
    for (const Answer& answer : job_->ask({0, 2}, "holds 7")) EXPECT_TRUE(answer.ok()) << answer;
    EXPECT_EQ((*job_)[1].ask("abort").result, ncclSuccess);
    expect_shrunk_works({0, 2}, {1});
    expect_no_leak({0, 2});
    expect_nothing_left();
  }
  Memory memory_of(int rank) {
    Memory memory;
    std::istringstream((*job_)[rank].ask("memory").text) >> memory.mappings >> memory.kilobytes;
    return memory;
  }
  int descriptors_of(int rank) {
    int count = 0;
    std::istringstream((*job_)[rank].ask("census").text) >> count;
    return count;
  }
  /// A listener closes soon after the last group that needed it.
  void expect_no_more_descriptors(int rank, int before) {
    EXPECT_TRUE(eventually([&] { return descriptors_of(rank) <= before; }, Seconds(2 * kSlack)))
        << descriptors_of(rank) << " descriptors, and " << before << " before";
  }
};

// ---- one more death

TEST_P(Recovery, TheHubAndThenAnotherRankMayDieInTheMiddleOfOperations) {
  form(4);
  enter_operations(job_->all());
  const TimePoint fault = Clock::now();
  kill(0);
  kill(2);
  expect_survival({0, 2}, fault);
  expect_nothing_left();
}

// Where buffers are mapped it mostly is in the middle of writing them.
TEST_P(Recovery, WhatAStoppedRankWritesWhenItGoesOnReachesNobody) { stop_inside_and_go_on("loop"); }
TEST_P(Recovery, WhatAStoppedRankMovesWhenItGoesOnReachesNobody) { stop_inside_and_go_on("moves"); }

TEST_P(Recovery, WithoutTheHubADeathDuringShrinkEndsItSoon) {
  form_and_lose(4, {0});
  job_->tell({1, 2}, "shrink 0");
  kill(3);  // while the others wait for it
  const TimePoint fault = Clock::now();
  expect_remote_error({1, 2}, {3}, fault, {}, "shrink");
  expect_shrunk_works({1, 2}, {0, 3});
  expect_no_leak({1, 2});
  expect_nothing_left();
}

TEST_P(Recovery, WithoutTheHubTheFirstSurvivorMayDieBeforeItCallsShrink) {
  form_and_lose(4, {0});
  kill(1);
  const TimePoint fault = Clock::now();
  job_->tell({2, 3}, "shrink 0");
  expect_remote_error({2, 3}, {1}, fault, {}, "shrink");
  expect_shrunk_works({2, 3}, {0, 1});
  expect_no_leak({2, 3});
  expect_nothing_left();
}

TEST_P(Recovery, ARankThatCallsAFailedShrinkLateHearsWhyAndTheNextOneWorks) {
  form_and_lose(4, {0});
  (*job_)[1].tell("shrink 0");
  kill(3);
  TimePoint fault = Clock::now();
  expect_remote_error({1}, {3}, fault, {}, "shrink");
  fault = Clock::now();
  (*job_)[2].tell("shrink 0");
  expect_remote_error({2}, {3}, fault, {}, "shrink");
  expect_shrunk_works({1, 2}, {0, 3});
  expect_nothing_left();
}

TEST_P(Recovery, ADeathAtAnyMomentOfShrinkEndsItSoonOrFailsTheNextCall) {
  const auto seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 6; ++round) {
    const auto microseconds = std::uniform_int_distribution<unsigned>(0, 6000)(random);
    const int victim = round % 3;
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ", round " << round << ": rank "
                                      << victim << " killed after " << microseconds << " us");
    form_and_lose(4, {3});
    job_->tell({0, 1, 2}, "shrink 3");
    ::usleep(microseconds);
    kill(victim);
    const TimePoint fault = Clock::now();
    for (const int rank : job_->all_but({victim, 3})) {
      Answer answer = (*job_)[rank].hear("shrink", Seconds(4 * kSlack));
      if (answer.ok()) answer = (*job_)[rank].ask("reduce 1000", Seconds(4 * kSlack));
      EXPECT_EQ(answer.result, ncclRemoteError) << answer;
      EXPECT_LT(Seconds(answer.when - fault), Seconds(2 * kSlack)) << answer;
      EXPECT_THAT(answer.text, names_one_of({victim}));
    }
    expect_nothing_left();
  }
}

TEST_P(Recovery, ErrorsOfShrinkNameRanksAsTheCallerKnowsThem) {
  form_and_lose(4, {0});
  job_->tell({1, 2}, "shrink 0");
  kill(3);  // which would have become rank 2
  for (const Answer& answer : job_->hear({1, 2}, "shrink", Seconds(2 * kSlack))) {
    EXPECT_EQ(answer.result, ncclRemoteError);
    EXPECT_THAT(answer.text, HasSubstr("rank 3"));
  }
  expect_nothing_left();
}

// ---- the hub's ranks may leave in peace before the others are done

TEST_P(Recovery, ADeathIsNoticedAfterTheHubHasLeft) {
  form(3);
  EXPECT_TRUE((*job_)[0].ask("destroy").ok());
  EXPECT_EQ((*job_)[0].exit(), 0);
  (*job_)[1].tell("receive 2 1000");
  kill(2);
  const TimePoint fault = Clock::now();
  expect_remote_error({1}, {2}, fault, {}, "receive");
  expect_nothing_left();
}

TEST_P(Recovery, AfterTheHubHasLeftFailureSpreadsFromRankToRank) {
  form(4);
  EXPECT_TRUE((*job_)[0].ask("destroy").ok());
  EXPECT_EQ((*job_)[0].exit(), 0);
  (*job_)[1].tell("receive 2 1000");
  (*job_)[2].tell("receive 3 1000");
  kill(3);
  const TimePoint fault = Clock::now();
  expect_remote_error({2}, {3}, fault, {}, "receive");
  expect_remote_error({1}, {2}, fault, {Seconds(0), Seconds(5 * kSlack)}, "receive");
  expect_nothing_left();
}

TEST_P(Recovery, AfterTheHubHasLeftAStoppedRankIsFoundAtTheLivenessLimit) {
  form(4, {{"TUTTI_LIVENESS", "1"}});
  EXPECT_TRUE((*job_)[0].ask("destroy").ok());
  EXPECT_EQ((*job_)[0].exit(), 0);
  (*job_)[1].tell("receive 2 1000");
  (*job_)[2].tell("receive 3 1000");
  (*job_)[3].signal(SIGSTOP);
  const TimePoint fault = Clock::now();
  expect_remote_error({1, 2}, {3}, fault, {Seconds(0.7), Seconds(3 * kSlack)}, "receive");
  kill(3);
  expect_shrunk_works({1, 2}, {0, 3});
  expect_nothing_left();
}

TEST_P(Recovery, AfterTheHubHasLeftARankThatLivesIsWaitedFor) {
  form(3, {{"TUTTI_LIVENESS", "0.3"}});
  EXPECT_TRUE((*job_)[0].ask("destroy").ok());
  EXPECT_EQ((*job_)[0].exit(), 0);
  (*job_)[1].tell("receive 2 1000");
  EXPECT_FALSE((*job_)[1].says("anything", Seconds(1)));  // three times the limit
  EXPECT_TRUE((*job_)[2].ask("abort").ok());
  const TimePoint fault = Clock::now();
  expect_remote_error({1}, {2}, fault, {}, "receive");
  expect_nothing_left();
}

// ---- abort

TEST_P(Recovery, AbortEndsAnInitUnderWayAtOnce) {
  start(3);
  const std::string served = (*job_)[0].ask("id").text;
  const std::string orphaned = (*job_)[2].ask("id").text;
  kill(2);
  for (const auto& [rank, id] : {std::pair{0, served}, {1, served}, {1, orphaned}}) {
    SCOPED_TRACE(rank);
    const std::string ranks = " 3 " + std::to_string(rank);
    EXPECT_EQ((*job_)[rank].ask("begin " + id + ranks).result, ncclInProgress);
    ::usleep(50'000);
    const Answer answer = (*job_)[rank].ask("abort");
    EXPECT_TRUE(answer.ok()) << answer;
    EXPECT_LT(answer.milliseconds, 500 * kSlack);
  }
  expect_nothing_left();
}

// ---- several unique ids

TEST_P(Recovery, SeveralIdsMeetInAnyOrder) {
  start(3);
  const std::string a = (*job_)[0].ask("id").text, b = (*job_)[1].ask("id").text;
  (*job_)[0].tell("initmany " + a + "," + b + " 3 0");
  (*job_)[1].tell("initmany " + b + "," + a + " 3 1");
  (*job_)[2].tell("initmany " + a + "," + b + " 3 2");
  for (const Answer& answer : job_->hear(job_->all(), "initmany"))
    EXPECT_TRUE(answer.ok()) << answer;
  for (const Answer& answer : job_->ask(job_->all(), "reduce 1003")) EXPECT_TRUE(answer.ok());
  for (const Answer& answer : job_->ask(job_->all(), "destroy")) EXPECT_TRUE(answer.ok());
  expect_nothing_left();
}

TEST_P(Recovery, GarbageAmongSeveralIdsIsRefusedAtOnce) {
  start(2);
  const std::string a = (*job_)[0].ask("id").text;
  std::string garbage = (*job_)[0].ask("id").text;
  garbage[100] = garbage[100] == '7' ? '8' : '7';
  const Answer wrong = (*job_)[0].ask("initmany " + a + "," + garbage + " 2 0", Seconds(kSlack));
  EXPECT_EQ(wrong.result, ncclInvalidArgument) << wrong;
  EXPECT_THAT(wrong.text, HasSubstr("commIds[1]"));
  const Answer twice = (*job_)[0].ask("initmany " + a + "," + a + " 2 0", Seconds(kSlack));
  EXPECT_EQ(twice.result, ncclInvalidArgument) << twice;
  EXPECT_THAT(twice.text, HasSubstr("the same id"));
  expect_nothing_left();
}

TEST_P(Recovery, RanksWithDifferentArraysOfIdsAreTold) {
  start(2, {{"TUTTI_INIT_TIMEOUT", "2"}});
  const std::string a = (*job_)[0].ask("id").text, b = (*job_)[0].ask("id").text;
  (*job_)[0].tell("initmany " + a + "," + b + " 2 0");
  (*job_)[1].tell("initmany " + a + " 2 1");
  // Together they meet at once; apart, where the first of them is not a's hub, at the deadline.
  for (const Answer& answer : job_->hear(job_->all(), "initmany", Seconds(4 * kSlack))) {
    EXPECT_FALSE(answer.ok());
    EXPECT_THAT(answer.text, ::testing::AnyOf(HasSubstr("the same array"), HasSubstr("never came")))
        << answer;
  }
  expect_nothing_left();
}

// ---- what is left of communicators that have ended

TEST_P(Recovery, InitAndAbortInOneProcessLeaveNothing) {
  start(1);
  EXPECT_TRUE((*job_)[0].ask("churn 100", Seconds(30)).ok());
  const Memory before = memory_of(0);
  const int descriptors = descriptors_of(0);
  EXPECT_TRUE((*job_)[0].ask("churn 500", Seconds(60 * kSlack)).ok());
  const Memory after = memory_of(0);
  expect_no_more_descriptors(0, descriptors);
  EXPECT_LE(after.mappings, before.mappings + 4);  // of the allocator
  if (!kSanitized) {
    EXPECT_LE(after.kilobytes, before.kilobytes + 2048);
  }
  expect_nothing_left();
}

TEST_P(Recovery, InitAndAbortOfManyProcessesLeaveNothing) {
  start(3);
  Memory before;
  int descriptors = 0;
  for (int round = 0; round < 30; ++round) {
    for (const Answer& answer : job_->init()) ASSERT_TRUE(answer.ok()) << answer;
    for (const Answer& answer : job_->ask(job_->all(), "reduce 300007")) ASSERT_TRUE(answer.ok());
    for (const Answer& answer : job_->ask(job_->all(), "abort")) ASSERT_TRUE(answer.ok());
    if (round != 9) continue;
    settle(job_->all());
    before = memory_of(0);
    descriptors = descriptors_of(0);
  }
  settle(job_->all());
  const Memory after = memory_of(0);
  expect_no_more_descriptors(0, descriptors);
  EXPECT_LE(after.mappings, before.mappings + 4);
  if (!kSanitized) {
    EXPECT_LE(after.kilobytes, before.kilobytes + 2048);
  }
  expect_nothing_left();
}

TEST_P(Recovery, TheDeadOccupyNoMemory) {
  form(6);
  Memory before;
  Ranks alive = job_->all();
  while (alive.size() > 1) {
    for (const Answer& answer : job_->ask(alive, "reduce 300007")) ASSERT_TRUE(answer.ok());
    const int victim = static_cast<int>(alive.size()) - 1;
    alive.pop_back();
    kill(victim);
    for (const Answer& answer : job_->ask(alive, "reduce 300007")) EXPECT_FALSE(answer.ok());
    for (const Answer& answer : job_->ask(alive, "shrink " + std::to_string(victim)))
      ASSERT_TRUE(answer.ok()) << answer;
    if (alive.size() == 5) before = memory_of(0);
  }
  EXPECT_TRUE((*job_)[0].ask("destroy").ok());
  settle({0});
  const Memory after = memory_of(0);
  EXPECT_LE(after.mappings, before.mappings + 4);
  if (!kSanitized) {
    EXPECT_LE(after.kilobytes, before.kilobytes + 1024);
  }
  expect_no_leak({0});
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Over, Recovery, ::testing::Values("shm", "tcp", "mapped"), transport_name);

}  // namespace
}  // namespace tutti::testing
