// Drives the built tutti-bench as its users do, hostile ones included.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "tools/program/cli.hpp"
#include "tools/program/started.hpp"

namespace tutti::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kFast = " -n 2 -w 1 ";

Outcome bench(const std::string& arguments) {
  return run_shell(TUTTI_BENCH_PROGRAM " " + arguments);
}

/// With spoiler.cpp's all-reduce.
Outcome spoiled_bench(const std::string& arguments) {
  return run_shell("ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=" TUTTI_BENCH_SPOILER
                   " " TUTTI_BENCH_PROGRAM " " +
                   arguments);
}

/// A folder of this test's own.
class Bench : public testing::Test {
 protected:
  Bench() : folder_(testing::TempDir() + fmt::format("tutti_bench_test.{}", ::getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~Bench() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_ + "/" + name; }

  [[nodiscard]] nlohmann::json json_of(const std::string& arguments) const {
    const Outcome outcome = bench(arguments + " --json " + file("out.json"));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return written_json();
  }
  [[nodiscard]] nlohmann::json written_json() const {
    std::ifstream in(file("out.json"));
    return nlohmann::json::parse(in, nullptr, false);
  }

  std::string folder_;
};

TEST_F(Bench, AWrongElementIsReportedWithItsChunkAndExitsThree) {
  const Outcome outcome =
      spoiled_bench("all_reduce --ranks 3 -b 4K -e 4K --algo two_shot --out-of-place -n 2");
  EXPECT_EQ(outcome.code, kExitWrongData) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("rank 1: element 517 (block 0) is wrong: expected "),
                                    HasSubstr("it lies in chunk 1 of 0..2 (elements 336 to 671) of "
                                              "two_shot, added up by rank 1"),
                                    HasSubstr("FAILED")));
}

TEST_F(Bench, RowsOfOneHostSayHowNearTheyAreToTheMachinesLimit) {
  const auto json = json_of(std::string("all --ranks 2 -b 1M -e 1M") + kFast);
  for (const auto& point : json["limit"]["copy_bandwidth"]) EXPECT_GT(point["gb_per_s"], 0.1);
  for (const auto& row : json["results"]) {
    for (const char* form : {"out_of_place", "in_place"}) {
      if (row[form].is_null()) continue;
      EXPECT_GT(row[form]["limit_percent"], 0) << row;
    }
  }
}

TEST_F(Bench, TheLimitCanBeTurnedOffAndTheColumnsOfNcclTestsStay) {
  const auto json = json_of(std::string("all_reduce --ranks 2 -b 8 -e 8 --limit none") + kFast);
  EXPECT_TRUE(json["results"][0]["out_of_place"]["limit_percent"].is_null());
  EXPECT_EQ(json["limit"]["reason"], "--limit none");

  const Outcome with = bench(std::string("all_reduce --ranks 2 -b 8 -e 8") + kFast);
  const auto row = with.output.find("\n           8");
  ASSERT_NE(row, std::string::npos) << with.output;
  std::istringstream words(with.output.substr(row));
  std::vector<std::string> columns;
  for (std::string word; columns.size() < 17 && words >> word;) columns.push_back(word);
  EXPECT_EQ(columns[1], "2");
  EXPECT_EQ(columns[2], "float");
  EXPECT_EQ(columns[3], "sum");
  EXPECT_EQ(columns[4], "-1");
  EXPECT_EQ(columns[8], "0");            // #wrong
  EXPECT_EQ(columns[12], "0");           // #wrong in place
  EXPECT_GE(std::stod(columns[16]), 0);  // after algorithm, p50, p99; 0.00 where it is slow
}

TEST_F(Bench, WrongCommandLinesExitTwoAndNameTheValue) {
  const std::pair<const char*, const char*> kCases[] = {
      {"all_redcue", "did you mean `all_reduce`?"},
      {"", "COLL is required"},
      {"all --minbyts 8", "did you mean '--minbytes'?"},
      {"all -b 1Q", "`1Q` is not a size"},
      {"all -b -8", "`-8` is not a size"},
      {"all -b ''", "the value of --minbytes is empty"},
      {"all -b 99999999999999999999", "does not fit 64 bits"},
      {"all -b 64 -e 8", "raise -e or lower -b"},
      {"all -n 0", "'0' is not a number in 1..1000000000"},
      {"all -n many", "many"},
      {"all --ranks 0", "'0' is not a number in 1..4096"},
      {"all --ranks 1000000", "'1000000' is not a number in 1..4096"},
      {"all --ranks 2 -r 2", "root 2 is not one of the ranks 0..1"},
      {"broadcast --ranks 2 -r 1234567890123", "is not a root"},
      {"all -t 1024 -g 1024", "1048576 ranks in one process; 4096 is the most"},
      {"all --gate nan --compare x", "'nan' is not a number in 0..1000000"},
      {"all --limit perhaps", "'perhaps' is not one of auto|none"},
      {"all --bind nine", "did you mean 'none'?"},
      {"all --ranks 2 --algo rign", "--algo rign: "},
      {"all --gate 5", "--compare FILE"}};
  for (const auto& [arguments, hint] : kCases) {
    const Outcome outcome = bench(arguments);
    EXPECT_EQ(outcome.code, kExitUsage) << arguments << "\n" << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(hint)) << arguments;
  }
}

TEST_F(Bench, AnErrorThatAllRanksShareIsSaidOnce) {
  const Outcome outcome = bench("broadcast -t 2 -r 7 -b 8 -e 8");
  EXPECT_EQ(outcome.code, kExitUsage) << outcome.output;
  const auto first = outcome.output.find("root 7 is not one of the ranks 0..1");
  ASSERT_NE(first, std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find("root 7", first + 1), std::string::npos) << outcome.output;
}

TEST_F(Bench, SizesBeyondTheMachinesMemoryAreRefusedBeforeTheyAreTouched) {
  const Outcome outcome = bench("all_reduce --ranks 2 -b 100000G -e 100000G");
  EXPECT_EQ(outcome.code, kExitEnvironment) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("the buffers of 2 ranks on"));
  EXPECT_THAT(outcome.output, HasSubstr("lower -e, or start fewer ranks"));
}

TEST_F(Bench, FilesAreLookedAtBeforeTheRun) {
  std::ofstream(file("noise.json")) << "[1,2]";
  const std::tuple<std::string, int, const char*> kCases[] = {
      {"--json " + file("none/out.json"), kExitEnvironment, "No such file or directory"},
      {"--json " + folder_, kExitEnvironment, "is a directory"},
      {"--json /dev/full", kExitEnvironment, "cannot write '/dev/full': No space left on device"},
      {"--compare " + file("none.json"), kExitEnvironment, "cannot open"},
      {"--compare " + folder_, kExitEnvironment, "Is a directory"},
      {"--compare " + file("noise.json"), kExitWrongData, "is not the JSON of a bench run"}};
  for (const auto& [arguments, code, hint] : kCases) {
    const Outcome outcome = bench("all_reduce --ranks 2 " + arguments);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.output;
    EXPECT_THAT(outcome.output, AllOf(HasSubstr(hint), Not(HasSubstr("busbw")))) << arguments;
  }
}

TEST_F(Bench, ARankOfALaunchersJobLooksAtItsFileBeforeTheRunToo) {
  const std::string job = "TUTTI_BOOTSTRAP=file://" + file("job") + " RANK=0 WORLD_SIZE=1 ";
  const Outcome outcome =
      run_shell(job + TUTTI_BENCH_PROGRAM " all_reduce --json " + file("none/out.json"));
  EXPECT_EQ(outcome.code, kExitEnvironment) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr(file("none/out.json")), Not(HasSubstr("busbw"))));
}

TEST_F(Bench, AFailedRunWritesTheRowsThatItHasAndTheErrors) {
  const Outcome outcome = spoiled_bench(
      "all_reduce --ranks 2 -b 8 -e 1K -f 128 -d uint8 -n 2 --json " + file("out.json"));
  EXPECT_EQ(outcome.code, kExitPeer) << outcome.output;
  const auto json = written_json();
  ASSERT_EQ(json["results"].size(), 1u) << outcome.output;
  EXPECT_EQ(json["results"][0]["size"], 8);
  ASSERT_EQ(json["errors"].size(), 1u);
  EXPECT_THAT(json["errors"][0].get<std::string>(),
              AllOf(HasSubstr("rank 0: "), HasSubstr("rank 1")));
}

TEST_F(Bench, ARunThatCannotBeComparedWritesItsRowsAndTheError) {
  const std::string job = std::string("all_reduce --ranks 2 -b 64 -e 64") + kFast;
  std::ofstream(file("other.json"))
      << json_of(std::string("all_reduce --ranks 2 -b 8 -e 8") + kFast);
  const Outcome outcome =
      bench(job + "--compare " + file("other.json") + " --json " + file("out.json"));
  EXPECT_EQ(outcome.code, kExitUsage) << outcome.output;
  const auto json = written_json();
  EXPECT_EQ(json["results"].size(), 1u);
  ASSERT_EQ(json["errors"].size(), 1u);
  EXPECT_THAT(json["errors"][0].get<std::string>(), HasSubstr("has none of this run's rows"));
}

TEST_F(Bench, AJobThatDoesNotMeetWritesTheError) {
  const Outcome outcome = run_shell(
      "TUTTI_BOOTSTRAP=nowhere:// RANK=0 WORLD_SIZE=2 " TUTTI_BENCH_PROGRAM " all_reduce --json " +
      file("out.json"));
  EXPECT_NE(outcome.code, 0) << outcome.output;
  const auto json = written_json();
  EXPECT_EQ(json["results"].size(), 0u);
  ASSERT_EQ(json["errors"].size(), 1u) << outcome.output;
}

TEST_F(Bench, AFullDiskIsAnErrorOfTheEnvironment) {
  const std::string job =
      std::string(TUTTI_BENCH_PROGRAM " all_reduce --ranks 2 -b 8 -e 64 -f 2") + kFast;
  for (const std::string where : {"--json - >/dev/full", ">/dev/full", ">&-"}) {
    const Outcome outcome = run_shell(job + where);
    EXPECT_EQ(outcome.code, kExitEnvironment) << where << "\n" << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("cannot write ")) << where;
    EXPECT_THAT(outcome.output, Not(HasSubstr("rank 1"))) << where;  // only rank 0 has trouble
  }
}

TEST_F(Bench, AReaderThatLeavesEndsTheRun) {
  const Outcome outcome = run_shell(
      "{ " TUTTI_BENCH_PROGRAM " all_reduce --ranks 2 -N 0 -n 2; echo code $? >&2; } | head -n 1");
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("# tutti-bench version"), HasSubstr("code 5"),
                                    HasSubstr("cannot write standard output: Broken pipe")));
}

TEST_F(Bench, ComparisonsAndExpectationsThatAreMissedExitFour) {
  const std::string job = std::string("all_reduce --ranks 2 -b 64 -e 64") + kFast;
  nlohmann::json earlier = json_of(job);
  const auto write_earlier = [&](const char* name, double p50) {
    for (const char* form : {"out_of_place", "in_place"}) earlier["results"][0][form]["p50"] = p50;
    std::ofstream(file(name)) << earlier;
  };
  write_earlier("slow.json", 1e9);
  write_earlier("fast.json", 1e-6);
  EXPECT_EQ(bench(job + "--compare " + file("slow.json") + " --gate 50").code, 0);
  const Outcome slow = bench(job + "--compare " + file("fast.json") + " --gate 50");
  EXPECT_EQ(slow.code, kExitSlow) << slow.output;
  EXPECT_THAT(slow.output, HasSubstr("Slower by more than 50 % : 2 of 2 FAILED"));
  EXPECT_EQ(bench(job + "--compare " + file("fast.json")).code, 0);  // no gate
  const Outcome expected = bench(job + "--expect 1e9");
  EXPECT_EQ(expected.code, kExitSlow) << expected.output;
  EXPECT_THAT(expected.output, HasSubstr("Expected at least 1e+09 GB/s"));
  EXPECT_EQ(bench(job + "--expect 0").code, 0);
}

TEST_F(Bench, AnInterruptEndsAllRanksWithItsOwnCode) {
  Started started({TUTTI_BENCH_PROGRAM, "all_reduce", "--ranks", "2", "-N", "0", "-n", "2"});
  std::string line;
  do line = started.read_line();
  while (!line.empty() && line.find(" float ") == std::string::npos);  // in the middle of the table
  started.signal(SIGINT);
  const int status = started.wait();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGINT);
  while (!line.empty()) line = started.read_line();  // ends when no rank is left
}

TEST_F(Bench, RunsWithoutHomeInputOrAWritableFolder) {
  const std::string job =
      std::string(TUTTI_BENCH_PROGRAM " all_reduce --ranks 2 -b 8 -e 8") + kFast;
  EXPECT_EQ(run_shell("cd /proc && env -i " + job + " <&-").code, 0);
}

TEST_F(Bench, TooFewDescriptorsAreNamed) {
  const Outcome outcome =
      run_shell("ulimit -n 16; " TUTTI_BENCH_PROGRAM " all_reduce --ranks 12 -n 2");
  EXPECT_EQ(outcome.code, kExitEnvironment) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("Too many open files"));
}

TEST_F(Bench, EveryNcclTestsNameIsAProgramWithHelpAndAVersion) {
  const std::string folder = std::filesystem::path(TUTTI_BENCH_PROGRAM).parent_path();
  for (const char* name : {"all_reduce_perf", "all_gather_perf", "reduce_scatter_perf",
                           "broadcast_perf", "reduce_perf", "alltoall_perf", "gather_perf",
                           "scatter_perf", "sendrecv_perf", "tutti-bench"}) {
    const Outcome version = run_shell(folder + "/" + name + " --version");
    EXPECT_EQ(version.code, 0) << name;
    EXPECT_EQ(version.output, version_line() + "\n") << name;
    EXPECT_THAT(run_shell(folder + "/" + name + " --help").output, HasSubstr("--minbytes")) << name;
  }
  EXPECT_THAT(run_shell(folder + "/gather_perf -b x").output, HasSubstr("gather_perf: `x` is"));
}

}  // namespace
}  // namespace tutti::tools
