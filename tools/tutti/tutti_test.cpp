// The command line's contract: exit codes, suggestions, machine-readable output.
#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tools/program/cli.hpp"
#include "tools/program/started.hpp"

namespace tutti::tools {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Outcome tutti(const std::string& arguments) { return run_shell(TUTTI_PROGRAM " " + arguments); }

std::string scratch_file(const std::string& name) {
  return testing::TempDir() + "tutti_test." + std::to_string(::getpid()) + "." + name;
}

TEST(Tutti, UnknownNamesAreUsageErrorsWithASuggestion) {
  const std::pair<const char*, const char*> kCases[] = {
      {"rnu", "did you mean 'run'?"},
      {"algo lst", "did you mean 'list'?"},
      {"algo list --jsno x", "did you mean '--json'?"},
      {"algo show rign -n 4", "did you mean 'ring'?"},
      {"algo show ring -n 4 --coll all_reduc", "did you mean 'all_reduce'?"},
      {"--vresion", "did you mean '--version'?"},
      {"help rnu", "did you mean 'run'?"},
      {"algo show ring -n 4 -o x.pdf", "use .txt, .svg, .xml or .json"},
      {"algo show ring -n 0", "'0' is not a number in 1..1024"},
      {"algo show ring -n 99999999999", "99999999999"},
      {"algo show ring -n 4 --root -1", "-1"},
      {"algo show broadcast -n 4", "there is no algorithm 'broadcast'"},
      {"algo verify none", "nor is there a file of that name"},
      {"algo show ring -n 4 --root 4", "root 4 is not one of 4 ranks"},
      {"algo verify ring -n 5..2", "no range of ranks"},
      {"algo verify ring", "either -n N, -n N..M or --layout is required"},
      {"algo verify ring -n 4 --layout 2x2", "either -n N, -n N..M or --layout is required"},
      {"algo verify torus --layout 2,1", "torus has no collective for layout 2,1"},
      {"algo verify --all --layout 2x", "'2x' is not a layout"},
      {"algo verify swing -n 3", "swing has no collective for 3 ranks"},
      {"algo verify ring -n 4 --coll all_reduc", "did you mean 'all_reduce'?"},
      {"algo show torus --layout 64x64", "has 4096 ranks; at most 1024"},
      {"algo show hierarchical_ring -n 8", "hierarchical_ring needs to know which ranks are near"},
      {"algo show hierarchical_ring -n 5 --layout 2x4", "-n 5 contradicts --layout 2x4"},
      {"algo show hierarchical_ring --layout 2x4 --root 8", "root 8 is not one of 8 ranks"},
      {"algo show ring", "-n N or --layout is required"},
      {"algo show torus --layout 2,1", "torus has no all_reduce for 3 ranks as 2,1"},
      {"algo verify", "give one algorithm, one file or --all"},
      {"algo show ring -n 4 -o ''", "the value of --output is empty"},
      {"algo show '' -n 4", "the value of algorithm is empty"},
      {"env --jsn x", "did you mean '--json'?"}};
  for (const auto& [arguments, hint] : kCases) {
    const Outcome outcome = tutti(arguments);
    EXPECT_EQ(outcome.code, kExitUsage) << arguments;
    EXPECT_THAT(outcome.output, HasSubstr(hint)) << arguments;
  }
}

TEST(Tutti, SaysWhichProgramIsNotInstalledBesideIt) {
  const std::string alone = scratch_file("alone");
  std::filesystem::copy_file(TUTTI_PROGRAM, alone);
  const Outcome outcome = run_shell(alone + " sim");
  std::filesystem::remove(alone);
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.output, HasSubstr("tutti-sim, which runs 'sim', is not beside"));
}

TEST(Tutti, EveryProgramHasHelpAndAVersion) {
  for (const char* name : {"", "run ", "env ", "algo ", "topo "}) {
    const Outcome help = tutti(name + std::string("--help"));
    EXPECT_EQ(help.code, 0) << name;
    EXPECT_GT(help.output.size(), 100U) << name;
    const Outcome version = tutti(name + std::string("--version"));
    EXPECT_EQ(version.code, 0) << name;
    EXPECT_THAT(version.output, StartsWith("tutti ")) << name;
  }
}

TEST(Env, ListsSettingsAndUnknownNamesAndKeepsTheSecret) {
  const Outcome outcome =
      run_shell("TUTTI_JOB_KEY=squeamish TUTTI_TIMOUT=1 TUTTI_TIMEOUT=2.5 " TUTTI_PROGRAM
                " env --json - 2>/dev/null");
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, Not(HasSubstr("squeamish")));
  const auto json = nlohmann::json::parse(outcome.output);
  EXPECT_EQ(json["unknown"][0]["name"], "TUTTI_TIMOUT");
  EXPECT_EQ(json["unknown"][0]["nearest"], "TUTTI_TIMEOUT");
  EXPECT_GE(json["machine"]["cpus_allowed"], 1);
  const auto timeout = std::ranges::find_if(
      json["settings"], [](const auto& setting) { return setting["name"] == "TUTTI_TIMEOUT"; });
  ASSERT_NE(timeout, json["settings"].end());
  EXPECT_EQ((*timeout)["value"], "2.5");
  EXPECT_EQ((*timeout)["source"], "TUTTI_TIMEOUT");
}

TEST(Env, SaysWhatIsKnownAboutTheMachineAndWhere) {
  const auto tuning_with = [](const std::string& variables) {
    const Outcome outcome = run_shell(variables + " " TUTTI_PROGRAM " env --json - 2>/dev/null");
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return nlohmann::json::parse(outcome.output)["tuning"];
  };
  const auto none = tuning_with("TUTTI_TUNING_FILE=none");
  EXPECT_EQ(none["file"], "");
  EXPECT_EQ(none["verdicts"], 0);
  const std::string file = tuning_with("TUTTI_TUNING_FILE= XDG_CACHE_HOME=/cache")["file"];
  EXPECT_THAT(file, AllOf(StartsWith("/cache/tutti/"), HasSubstr("CPUs"), EndsWith(".json")));
}

TEST(Env, ABadValueIsAUsageError) {
  const Outcome outcome = run_shell("TUTTI_SHM=perhaps " TUTTI_PROGRAM " env");
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.output, HasSubstr("TUTTI_SHM: 'perhaps' is not one of 0|1"));
}

TEST(Tutti, FilesThatCannotBeReadOrWrittenAreErrorsOfTheEnvironment) {
  const std::pair<std::string, const char*> kCases[] = {
      {"algo verify /", "cannot read '/': Is a directory"},
      {"algo show ring -n 4 -o /nowhere/x.svg", "cannot write '/nowhere/x.svg'"},
      {"algo show ring -n 4 -o /dev/full", "cannot write '/dev/full': No space left"},
      {"algo show ring -n 4 > /dev/full", "cannot write standard output: No space left"},
      {"algo list > /dev/full", "cannot write standard output: No space left"},
      {"algo verify ring -n 2 --json /dev/full", "cannot write '/dev/full': No space left"},
      {"env > /dev/full", "cannot write standard output: No space left"},
      {"env >&-", "cannot write standard output: Bad file descriptor"},
      {"env --json /", "cannot open '/': Is a directory"},
      {"--help > /dev/full", "cannot write standard output: No space left"},
      {"env --version > /dev/full", "cannot write standard output: No space left"}};
  for (const auto& [arguments, hint] : kCases) {
    const Outcome outcome = tutti(arguments);
    EXPECT_EQ(outcome.code, kExitEnvironment) << arguments << "\n" << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(hint)) << arguments;
  }
}

TEST(Tutti, AFileThatCannotBeWrittenWholeStaysAsItWas) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("tutti_{}", ::getpid());
  std::filesystem::create_directory(folder);
  const std::string limited = fmt::format(
      "cd {}; echo precious > kept.txt; (ulimit -f 1; trap '' XFSZ; "
      "{} algo show ring -n 32 -o kept.txt)",
      folder.string(), TUTTI_PROGRAM);
  const Outcome outcome = run_shell(limited);
  EXPECT_EQ(outcome.code, kExitEnvironment) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("cannot write 'kept.txt': File too large"));
  EXPECT_EQ(run_shell(fmt::format("cat {}/*", folder.string())).output, "precious\n");
  std::filesystem::remove_all(folder);
}

TEST(Tutti, ClosedDescriptorsAndMissingSurroundingsDoNotMatter) {
  for (const char* name : {"algo verify ring -n 2", "env", "run -n 2 -- true"}) {
    const Outcome outcome =
        run_shell("cd /proc && env -i " TUTTI_PROGRAM " " + std::string(name) + " <&- 2>&-");
    EXPECT_EQ(outcome.code, 0) << name << "\n" << outcome.output;
  }
  EXPECT_EQ(tutti("nonsense 2>&-").code, kExitUsage);
}

}  // namespace
}  // namespace tutti::tools
