// Ranks that die, stop or disagree, and what the others make of it: the essential faults.
#include "tests/faults/faults.hpp"

#include <csignal>

namespace tutti::testing {
namespace {

using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr Seconds kLiveness(1);

class Faults : public FaultsOver {};

TEST_P(Faults, AKilledRankEndsLargeAllReducesOfAllOthers) {
  form(4);
  enter_operations(job_->all());
  const TimePoint fault = Clock::now();
  kill(2);
  expect_survival({2}, fault);
  expect_nothing_left();
}

TEST_P(Faults, TheRankThatMadeTheUniqueIdMayDieToo) {
  form(4);
  enter_operations(job_->all());
  const TimePoint fault = Clock::now();
  kill(0);
  expect_survival({0}, fault);
  expect_nothing_left();
}

// The limit counts from the last sign of life, which may be a quarter of it older than the stop.
TEST_P(Faults, AStoppedRankIsFoundAtTheLivenessLimitAndNotBefore) {
  form(4, {{"TUTTI_LIVENESS", std::to_string(kLiveness.count())}});
  enter_operations(job_->all());
  const TimePoint fault = Clock::now();
  (*job_)[1].signal(SIGSTOP);
  expect_survival({1}, fault, {0.7 * kLiveness, 1.5 * kLiveness * kSlack});
  (*job_)[1].signal(SIGCONT);
  const Answer late = (*job_)[1].hear("loop");
  EXPECT_EQ(late.result, ncclRemoteError) << late;
  EXPECT_EQ((*job_)[1].ask("abort").result, ncclSuccess);
  expect_nothing_left();
}

TEST_P(Faults, ASlowRankThatLivesIsWaitedFor) {
  form(3, {{"TUTTI_LIVENESS", "0.3"}});
  const Ranks early = {0, 2};
  job_->tell(early, "reduce 100000");
  EXPECT_FALSE((*job_)[0].says("anything", Seconds(1)));  // three times the limit
  EXPECT_TRUE((*job_)[1].ask("reduce 100000").ok());
  for (const Answer& answer : job_->hear(early, "reduce")) EXPECT_TRUE(answer.ok()) << answer;
  for (const Answer& answer : job_->ask(job_->all(), "destroy")) EXPECT_TRUE(answer.ok());
  expect_nothing_left();
}

TEST_P(Faults, DifferentCollectivesShowBothSidesBothCalls) {
  form(2);
  (*job_)[0].tell("reduce 1003");
  (*job_)[1].tell("broadcast 1003");
  for (const Answer& answer :
       {(*job_)[0].hear("reduce"), (*job_)[1].hear("broadcast", Seconds(2 * kSlack))}) {
    EXPECT_EQ(answer.result, ncclInvalidUsage) << answer;
    EXPECT_THAT(answer.text, HasSubstr("all_reduce"));
    EXPECT_THAT(answer.text, HasSubstr("broadcast"));
    EXPECT_THAT(answer.text, HasSubstr("rank 0"));
    EXPECT_THAT(answer.text, HasSubstr("rank 1"));
  }
  EXPECT_FALSE((*job_)[0].ask("reduce 10").ok());
  expect_nothing_left();
}

// Between processes that share memory both sides see all of both; over tcp a frame has no room for
// the place of the other call.
TEST_P(Faults, DifferentCallsShowTheirPlacesAndArgumentsWhenChecksAreOn) {
  form(2, {{"TUTTI_CHECK", "1"}});
  (*job_)[0].tell("reduce 1003");
  (*job_)[1].tell("broadcast 1003");
  const Answer answers[] = {(*job_)[0].hear("reduce"),
                            (*job_)[1].hear("broadcast", Seconds(2 * kSlack))};
  const auto place = [](const std::string& function) {
    return ContainsRegex(function +
                         "\\(sendbuff=0x[0-9a-f]+, recvbuff=0x[0-9a-f]+, count=1003, int32, "
                         "[a-z=0-9]+\\) at [^ ]*fault_rank\\([^ ]*\\+0x[0-9a-f]+\\)");
  };
  const bool maps = std::string(GetParam()) != "tcp";
  for (const int rank : {0, 1}) {
    EXPECT_EQ(answers[rank].result, ncclInvalidUsage) << answers[rank];
    if (maps || rank == 0) {
      EXPECT_THAT(answers[rank].text, place("ncclAllReduce"));
    }
    if (maps || rank == 1) {
      EXPECT_THAT(answers[rank].text, place("ncclBroadcast"));
    }
    EXPECT_THAT(answers[rank].text, AnyOf(HasSubstr("ncclAllReduce"), HasSubstr("all_reduce")));
    EXPECT_THAT(answers[rank].text, AnyOf(HasSubstr("ncclBroadcast"), HasSubstr("broadcast")));
  }
  expect_nothing_left();
}

TEST_P(Faults, DifferentCountsShowBothSidesBothCalls) {
  for (const auto& [mine, theirs] : {std::pair{"2", "3"}, std::pair{"1000000", "1000001"}}) {
    SCOPED_TRACE(theirs);
    form(3);
    job_->tell({0, 2}, std::string("reduce ") + mine);
    (*job_)[1].tell(std::string("reduce ") + theirs);
    for (const Answer& answer : job_->hear(job_->all(), "reduce")) {
      EXPECT_EQ(answer.result, ncclInvalidUsage) << answer;
      EXPECT_THAT(answer.text, HasSubstr(mine));
      EXPECT_THAT(answer.text, HasSubstr(theirs));
    }
    for (const Answer& answer : job_->ask(job_->all(), "reduce 10")) EXPECT_FALSE(answer.ok());
    expect_nothing_left();
  }
}

TEST_P(Faults, ARankThatAbortsIsARemoteErrorThatNamesItOnTheOthers) {
  form(4);
  job_->tell({0, 2, 3}, "reduce 100000");
  const TimePoint fault = Clock::now();
  EXPECT_TRUE((*job_)[1].ask("abort").ok());
  expect_remote_error({0, 2, 3}, {1}, fault, {}, "reduce");
  expect_ended({0, 2, 3}, {1});
  expect_shrunk_works({0, 2, 3}, {1});
  expect_no_leak({0, 2, 3});
  expect_nothing_left();
}

// So much that nobody can send it to a rank that has not called, and wait for another one then.
TEST_P(Faults, ARankThatNeverCallsIsNamedWhenOperationsHaveATimeout) {
  form(3, {{"TUTTI_TIMEOUT", "1"}});
  const TimePoint fault = Clock::now();
  job_->tell({0, 1}, "reduce 1000000");
  expect_remote_error({0, 1}, {2}, fault, {Seconds(0.9), Seconds(2 * kSlack)}, "reduce");
  expect_ended({0, 1}, {2});
  EXPECT_FALSE((*job_)[2].ask("reduce 100000").ok());
  EXPECT_TRUE((*job_)[2].ask("abort").ok());
  expect_shrunk_works({0, 1}, {2});
  expect_no_leak({0, 1});
  expect_nothing_left();
}

TEST_P(Faults, ARankThatLeftPolitelyIsNamedByThoseWhoCallOn) {
  form(3, {{"TUTTI_TIMEOUT", "20"}});
  EXPECT_TRUE((*job_)[1].ask("destroy").ok());
  EXPECT_EQ((*job_)[1].exit(), 0);
  const TimePoint fault = Clock::now();
  job_->tell({0, 2}, "loop 1000");
  const Window window{Seconds(0), Seconds(5 * kSlack)};
  expect_remote_error({0, 2}, {1}, fault, window);
  expect_ended({0, 2}, {1});
  expect_shrunk_works({0, 2}, {1});
  expect_no_leak({0, 2});
  expect_nothing_left();
}

// What sleeps between its looks at the clock must not look too rarely.
TEST_P(Faults, AShortTimeoutIsNotALongOneForAWaitThatSleeps) {
  form(2, {{"TUTTI_TIMEOUT", "0.2"}});
  const TimePoint fault = Clock::now();
  (*job_)[0].tell("reduce 100000");
  expect_remote_error({0}, {1}, fault, {Seconds(0.19), Seconds(0.7 * kSlack)}, "reduce");
  EXPECT_FALSE((*job_)[1].ask("reduce 100000").ok());
  expect_nothing_left();
}

// The first calls of a size find out how it is run best; such calls end as all others do.
class FaultsOfTrials : public FaultsOver {
 protected:
  static constexpr int kCallsOfACourse = 48;
  void expect_all_fine(const Ranks& ranks, const std::string& call, int calls) {
    for (int i = 0; i < calls; ++i)
      for (const Answer& answer : job_->ask(ranks, call)) EXPECT_TRUE(answer.ok()) << answer;
  }
  /// What `others` are in the middle of.
  void expect_a_kill_ends(const Ranks& others, int victim, const std::string& call) {
    const TimePoint fault = Clock::now();
    kill(victim);
    expect_remote_error(others, {victim}, fault, {}, call);
    expect_ended(others, {victim});
    expect_shrunk_works(others, {victim});
    expect_nothing_left();
  }
  void expect_a_kill_ends_a_try() {
    form(4);
    expect_all_fine(job_->all(), "reduce 20000", 7);
    const Ranks others = job_->all_but({2});
    job_->tell(others, "reduce 20000");
    expect_a_kill_ends(others, 2, "reduce");
  }
};

TEST_P(FaultsOfTrials, AKilledRankEndsThemForAllOthers) { expect_a_kill_ends_a_try(); }

// Published, a reduce is over for all but its root at once, so they wait for the verdict before the
// call that needs it, while the root has not made its last try.
TEST_P(FaultsOfTrials, AKilledRankEndsTheWaitForTheVerdict) {
  form(4);
  expect_all_fine(job_->all(), "collect 8000", kCallsOfACourse - 1);
  const Ranks others = job_->all_but({0});
  expect_all_fine(others, "collect 8000", 1);
  job_->tell(others, "collect 8000");
  EXPECT_FALSE((*job_)[1].says("anything", Seconds(0.2)));
  expect_a_kill_ends(others, 0, "collect");
}

INSTANTIATE_TEST_SUITE_P(Over, FaultsOfTrials, ::testing::Values("shm"), transport_name);

class FaultsOfTrialsBetweenHosts : public FaultsOfTrials {};

TEST_P(FaultsOfTrialsBetweenHosts, AKilledRankEndsThemForAllOthers) { expect_a_kill_ends_a_try(); }

// The root of a broadcast waits for nobody: it is the first to tell what its tries took.
TEST_P(FaultsOfTrialsBetweenHosts, AKilledRankEndsTheWaitForItsTimes) {
  form(4);
  expect_all_fine(job_->all(), "broadcast 8000", kCallsOfACourse - 1);
  const Ranks others = job_->all_but({2});
  expect_all_fine(others, "broadcast 8000", 1);
  job_->tell(others, "broadcast 8000");
  EXPECT_FALSE((*job_)[0].says("anything", Seconds(0.2)));
  expect_a_kill_ends(others, 2, "broadcast");
}

TEST_P(FaultsOfTrialsBetweenHosts, ATimeoutEndsTheWaitForTheTimesOfARankThatLives) {
  form(2, {{"TUTTI_TIMEOUT", "0.5"}});
  expect_all_fine(job_->all(), "reduce 20000", kCallsOfACourse);
  const TimePoint fault = Clock::now();
  (*job_)[0].tell("reduce 20000");
  expect_remote_error({0}, {1}, fault, {Seconds(0.49), Seconds(1 * kSlack)}, "reduce");
  EXPECT_FALSE((*job_)[1].ask("reduce 20000").ok());
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Over, FaultsOfTrialsBetweenHosts, ::testing::Values("tcp"),
                         transport_name);

INSTANTIATE_TEST_SUITE_P(Over, Faults, ::testing::Values("shm", "tcp", "mapped"), transport_name);

}  // namespace
}  // namespace tutti::testing
