// Drives the built tutti-run as its users do.
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <sstream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/clock.hpp"
#include "tools/program/started.hpp"

namespace tutti::tools {
namespace {

using testing::HasSubstr;
using testing::Not;

Outcome run(const std::string& arguments) { return run_shell(TUTTI_RUN_PROGRAM " " + arguments); }

/// Waits until `condition` holds; false after ten seconds.
template <class Condition>
bool eventually(Condition condition) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(10));
  while (!condition()) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

TEST(Run, GivesEachRankItsEnvironment) {
  const Outcome outcome =
      run("-n 3 -- sh -c 'echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR "
          "${#TUTTI_JOB_KEY} ${MASTER_PORT:+port}'");
  EXPECT_EQ(outcome.code, 0);
  for (const char* rank : {"0", "1", "2"})
    EXPECT_THAT(outcome.output,
                HasSubstr(fmt::format("[{0}] {0} {0} 3 3 127.0.0.1 64 port\n", rank)));
}

TEST(Run, AllRanksShareAKeyThatIsNewForEveryJob) {
  const std::string command = "--no-prefix -n 2 -- sh -c 'echo $TUTTI_JOB_KEY'";
  const std::string first = run(command).output, second = run(command).output;
  ASSERT_EQ(first.size(), 130U);
  EXPECT_EQ(first.substr(0, 65), first.substr(65));
  EXPECT_NE(first, second);
}

TEST(Run, RanksAreDirectChildrenInRankOrder) {
  const Outcome outcome = run("--no-prefix -n 4 -- sh -c 'echo $RANK $PPID $$' | sort -n");
  std::array<long, 4> parent{}, pid{};
  std::istringstream lines(outcome.output);
  for (int rank = 0, read = 0; rank < 4; ++rank) {
    lines >> read >> parent[rank] >> pid[rank];
    ASSERT_EQ(read, rank);
    EXPECT_EQ(parent[rank], parent[0]);
  }
  int descents = 0;  // process ids grow, and may wrap around once
  for (int rank = 1; rank < 4; ++rank) descents += pid[rank] < pid[rank - 1] ? 1 : 0;
  EXPECT_LE(descents, 1) << outcome.output;
}

TEST(Run, LinesOfManyRanksStayWhole) {
  const Outcome outcome = run(
      "-n 4 -- sh -c 'for i in 1 2 3 4 5 6 7 8 9; do printf aaaaaaaaaaaa; printf \"bbbbbb\\n\"; "
      "done; printf end'");
  std::istringstream lines(outcome.output);
  int whole = 0, ends = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string text = line.substr(4);
    EXPECT_TRUE(text == "aaaaaaaaaaaabbbbbb" || text == "end") << line;
    (text == "end" ? ends : whole) += 1;
  }
  EXPECT_EQ(whole, 36);
  EXPECT_EQ(ends, 4);
}

// The kernel may hand SIGCHLD and SIGTERM to any thread of the launcher.
TEST(Run, TheEndOfARankIsSeenBesideThreadsOfOthers) {
  for (int turn = 0; turn < 20; ++turn) {
    const Deadline missed = Deadline::after(std::chrono::seconds(20));
    const Outcome outcome = run_shell("LD_PRELOAD=" OTHER_THREAD " " TUTTI_RUN_PROGRAM
                                      " --timeout 20 -n 2 -- sh -c 'sleep 0.0$RANK'");
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    ASSERT_FALSE(missed.passed()) << "the launcher looked only when the time was over";
  }
}

TEST(Run, OneFailureEndsTheOthersAndIsTheExitStatus) {
  const Outcome outcome = run("-n 3 -- sh -c '[ $RANK = 1 ] && exit 7; sleep 60'");
  EXPECT_EQ(outcome.code, 7);
  EXPECT_THAT(outcome.output, HasSubstr("rank 1 (pid "));
  EXPECT_THAT(outcome.output, HasSubstr("exited with status 7; ending ranks 0 2"));
}

TEST(Run, ASignalIsReportedAs128PlusItsNumber) {
  const Outcome outcome = run("-n 2 -- sh -c '[ $RANK = 0 ] && kill -9 $$; sleep 60'");
  EXPECT_EQ(outcome.code, 128 + SIGKILL);
  EXPECT_THAT(outcome.output, HasSubstr("was ended by signal 9 (Killed)"));
}

TEST(Run, WhoIgnoresSigtermIsKilledAfterTheGrace) {
  const Outcome outcome =
      run_shell("ready=$(mktemp -u) && mkfifo $ready && export ready && " TUTTI_RUN_PROGRAM
                " -n 2 --grace 0.2 -- sh -c 'if [ $RANK = 1 ]; then read word <$ready; exit 3; fi; "
                "trap \"\" TERM; echo ignoring >$ready; while :; do sleep 1; done'; "
                "code=$?; rm $ready; exit $code");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.output, HasSubstr("ranks 0 did not end when asked; killing them"));
}

TEST(Run, AStoppedRankEndsToo) {
  const Outcome outcome =
      run("-n 2 --grace 30 -- sh -c 'if [ $RANK = 1 ]; then exit 3; fi; kill -STOP $$; sleep 60'");
  EXPECT_EQ(outcome.code, 3);
}

TEST(Run, KeepGoingLetsTheOthersFinish) {
  const Outcome outcome =
      run("-n 2 --keep-going -- sh -c '[ $RANK = 0 ] && exit 4; sleep 0.1; echo survived'");
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.output, HasSubstr("[1] survived"));
}

TEST(Run, TheTimeoutEndsTheJobWithItsOwnStatus) {
  const Outcome outcome = run("-n 2 --timeout 0.2 -- sleep 60");
  EXPECT_EQ(outcome.code, 6);
  EXPECT_THAT(outcome.output, HasSubstr("did not end within 0.2 s"));
}

TEST(Run, BadCommandLinesAreUsageErrorsWithAHint) {
  const std::pair<const char*, const char*> kCases[] = {
      {"-n 2 --timout 3 -- true", "did you mean '--timeout'?"},
      {"-n 2", "no command given"},
      {"-n 0 -- true", "'0' is not a number in 1..4096"},
      {"-n 2 --timeout nan -- true", "'nan' is not a number in 0..10000000"},
      {"-n 2 ./program", "put the command after '--'"},
      {"-- true", "--ranks is required"}};
  for (const auto& [arguments, hint] : kCases) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_THAT(outcome.output, HasSubstr(hint)) << arguments;
  }
}

TEST(Run, OutputThatCannotBeWrittenEndsTheJob) {
  const std::string endless = TUTTI_RUN_PROGRAM " -n 2 -- sh -c 'while :; do echo line; done' ";
  for (const char* where : {">/dev/full", ">&-"}) {
    const Outcome outcome = run_shell(endless + where);
    EXPECT_EQ(outcome.code, 5) << where;
    EXPECT_THAT(outcome.output, HasSubstr("cannot write the ranks' output: ")) << where;
  }
  const Outcome unread = run_shell("{ " + endless + "; echo code $? >&2; } | head -n 1");
  EXPECT_THAT(unread.output, HasSubstr("nobody reads the output any more"));
  EXPECT_THAT(unread.output, HasSubstr("code 141"));
}

TEST(Run, ClosedStandardDescriptorsDoNotMixUpTheRanks) {
  const Outcome outcome =
      run_shell(TUTTI_RUN_PROGRAM " -n 2 -- sh -c 'read line || echo rank $RANK: no input' <&-");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("[0] rank 0: no input"));
  EXPECT_THAT(outcome.output, HasSubstr("[1] rank 1: no input"));
  EXPECT_EQ(run_shell(TUTTI_RUN_PROGRAM " -n 2 -- true 2>&-").code, 0);
  EXPECT_EQ(run_shell(TUTTI_RUN_PROGRAM " -n 2 -- false 2>&-").code, 1);
}

TEST(Run, TooFewDescriptorsAreNamedWithTheRemedy) {
  const Outcome outcome = run_shell("ulimit -n 16; " TUTTI_RUN_PROGRAM " -n 12 -- sleep 60");
  EXPECT_EQ(outcome.code, 5);
  EXPECT_THAT(outcome.output,
              HasSubstr("start fewer ranks or raise the limit (ulimit -Hn): Too many"));
}

TEST(Run, AProgramThatDoesNotExistIsNamed) {
  const Outcome outcome = run("-n 2 -- ./no-such-program");
  EXPECT_EQ(outcome.code, 5);
  EXPECT_THAT(outcome.output, HasSubstr("cannot run './no-such-program'"));
}

Started launch(const char* script) {
  return Started({TUTTI_RUN_PROGRAM, "-n", "2", "--", "sh", "-c", script});
}

pid_t pid_in(const std::string& line) { return std::stoi(line.substr(line.find("pid ") + 4)); }
bool gone(pid_t pid) { return ::kill(pid, 0) != 0; }

TEST(Run, PassesSigtermOnAndReportsIt) {
  Started launcher = launch("echo pid $$; exec sleep 60");
  const pid_t one = pid_in(launcher.read_line()), two = pid_in(launcher.read_line());
  launcher.signal(SIGTERM);
  const int status = launcher.wait();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
  EXPECT_TRUE(gone(one) && gone(two));
}

TEST(Run, AnInterruptReachesTheRanksAndIsReported) {
  Started launcher = launch("echo pid $$; exec sleep 60");
  const pid_t one = pid_in(launcher.read_line()), two = pid_in(launcher.read_line());
  launcher.signal(SIGINT);
  const int status = launcher.wait();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGINT);
  EXPECT_TRUE(gone(one) && gone(two));
}

TEST(Run, RanksDieWithALauncherThatIsKilled) {
  Started launcher = launch("echo pid $$; exec sleep 60");
  const pid_t one = pid_in(launcher.read_line()), two = pid_in(launcher.read_line());
  launcher.signal(SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(launcher.wait()));
  EXPECT_TRUE(eventually([&] { return gone(one) && gone(two); }));
}

}  // namespace
}  // namespace tutti::tools
