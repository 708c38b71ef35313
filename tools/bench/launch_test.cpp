#include "tools/bench/launch.hpp"

#include <filesystem>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/result.hpp"

namespace tutti::bench {
namespace {

Environment environment_with(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

TEST(Launcher, IsRecognisedByItsVariables) {
  EXPECT_EQ(launcher_variable(environment_with({})), "");
  EXPECT_EQ(launcher_variable(environment_with({{"MASTER_ADDR", "x"}, {"RANK", "0"}})),
            "MASTER_ADDR");
  EXPECT_EQ(launcher_variable(environment_with({{"OMPI_COMM_WORLD_RANK", "0"}})),
            "OMPI_COMM_WORLD_RANK");
  EXPECT_EQ(launcher_variable(environment_with({{"PMI_RANK", "1"}})), "PMI_RANK");
}

TEST(Launcher, ASlurmAllocationIsNotAStep) {
  EXPECT_EQ(launcher_variable(environment_with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}})),
            "");
  EXPECT_EQ(launcher_variable(environment_with({{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "1"}})),
            "SLURM_PROCID");
}

TEST(FittingRanks, FollowProcessorsAndMemoryButAreNeverAlone) {
  EXPECT_EQ(fitting_ranks(8, 1 << 30, 1 << 20), 8);
  EXPECT_EQ(fitting_ranks(64, 1 << 30, 32 << 20), 16);
  EXPECT_EQ(fitting_ranks(1, 1 << 30, 1 << 20), 2);
  EXPECT_EQ(fitting_ranks(8, 0, 1 << 20), 2);
}

class PlanTest : public testing::Test {
 protected:
  Launch plan(std::map<std::string, std::string> variables = {}) {
    const auto launch = plan_launch(options_, environment_with(std::move(variables)), 4);
    EXPECT_TRUE(launch) << launch.error().what;
    return launch ? *launch : Launch{};
  }
  Options options_;
};

TEST_F(PlanTest, AloneItStartsAsManyRanksAsFit) {
  EXPECT_EQ(plan().role, Launch::Role::kStarter);
  EXPECT_EQ(plan().processes, 4);
}

TEST_F(PlanTest, RanksAreDividedAmongThreadsAndGroups) {
  options_.ranks = 12;
  options_.threads = 2;
  options_.ranks_per_thread = 3;
  EXPECT_EQ(plan().role, Launch::Role::kStarter);
  EXPECT_EQ(plan().processes, 2);
}

TEST_F(PlanTest, ThreadsAloneNeedNoFurtherProcess) {
  options_.ranks_per_thread = 4;
  EXPECT_EQ(plan().role, Launch::Role::kAlone);
  options_.ranks = 4;
  EXPECT_EQ(plan().role, Launch::Role::kAlone);
  options_ = {};
  options_.ranks = 1;
  EXPECT_EQ(plan().role, Launch::Role::kAlone);
}

TEST_F(PlanTest, UnderALauncherItJoins) {
  EXPECT_EQ(plan({{"PMI_RANK", "1"}}).role, Launch::Role::kRank);
  options_.ranks = 2;
  options_.joined = true;
  EXPECT_EQ(plan({{"MASTER_ADDR", "127.0.0.1"}}).role, Launch::Role::kRank);
}

TEST_F(PlanTest, RefusesToStartAJobInEachRankOfAJob) {
  options_.ranks = 2;
  const auto launch = plan_launch(options_, environment_with({{"OMPI_COMM_WORLD_RANK", "0"}}), 4);
  ASSERT_FALSE(launch);
  EXPECT_THAT(launch.error().what, testing::HasSubstr("OMPI_COMM_WORLD_RANK"));
}

class StartJobTest : public testing::Test {
 protected:
  StartJobTest() : folder_(testing::TempDir() + fmt::format("bench_launch_{}", ::getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~StartJobTest() override { std::filesystem::remove_all(folder_); }

  /// Runs a shell script as every process; `$D` is a folder of this test.
  Result<int> run(int processes, const std::string& script) {
    return start_job(processes, {"/bin/sh", "-c", "D=" + folder_ + "; " + script}, "tutti bench");
  }

  std::string content(const std::string& name) {
    std::ifstream file(folder_ + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_;
};

TEST_F(StartJobTest, LetsTheSurvivorsOfAFailureFinish) {
  const auto code = run(2,
                        "if [ $RANK = 1 ]; then echo $$ > $D/part; mv $D/part $D/pid; exit 3; fi; "
                        "until [ -e $D/pid ]; do sleep 0.01; done; "
                        "until grep -q ') Z' /proc/$(cat $D/pid)/stat; do sleep 0.01; done; "
                        "sleep 0.1; echo $WORLD_SIZE > $D/survivor");
  ASSERT_TRUE(code) << code.error().what;
  EXPECT_EQ(*code, 3);
  EXPECT_EQ(content("survivor"), "2\n");
}

TEST_F(StartJobTest, AKilledProcessIsAFailedPeer) {
  const auto code = run(2, "if [ $RANK = 1 ]; then kill -9 $$; fi; exit 0");
  ASSERT_TRUE(code) << code.error().what;
  EXPECT_EQ(*code, 6);
}

TEST_F(StartJobTest, SaysWhenTheProgramCannotRun) {
  const auto code = start_job(2, {folder_ + "/no such program"}, "tutti bench");
  ASSERT_FALSE(code);
  EXPECT_EQ(code.error().code, Code::kUnavailable);
}

TEST(Binding, LeavesAThreadOneProcessor) {
  // In a process of its own: a binding does not come off again.
  if (const pid_t pid = ::fork(); pid == 0) {
    const bool bound = bind_to_processor(0).ok() && usable_processors() == 1;
    const bool refused = !bind_to_processor(1).ok();
    ::_exit(bound && refused ? 0 : 1);
  } else {
    int status = -1;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
}

}  // namespace
}  // namespace tutti::bench
