// Drives tutti-dropin as its users do: with small C programs, built here, that come by a libnccl in
// the ways that programs do.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tools/program/started.hpp"

namespace tutti::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kCheck = TUTTI_DROPIN_PROGRAM " --check ";
const std::string kOurFolder = std::filesystem::path(TUTTI_NCCL_LIBRARY).parent_path();

/// What stands in for somebody else's NCCL: version 1, with a function that Tutti lacks.
constexpr const char* kOtherNccl =
    "int ncclGetVersion(int* v) { *v = 1; return 0; }\n"
    "int ncclOfTomorrow(void) { return 0; }\n";
constexpr const char* kLinked =
    "#include <stdio.h>\n"
    "int ncclGetVersion(int*);\n"
    "int main(int n, char** a) {\n"
    "  int v = 0; ncclGetVersion(&v); printf(\"version %d\\n\", v); return n > 1 ? a[1][0] - '0' : "
    "0;\n"
    "}\n";
constexpr const char* kLinkedToTomorrow =
    "int ncclOfTomorrow(void);\nint main(void) { return ncclOfTomorrow(); }\n";
/// Opens its argument, in a forked child where there is a second one.
constexpr const char* kOpener =
    "#include <dlfcn.h>\n#include <stdio.h>\n#include <sys/wait.h>\n#include <unistd.h>\n"
    "int main(int n, char** a) {\n"
    "  if (n > 2 && fork() != 0) { wait(NULL); return 0; }\n"
    "  void* library = dlopen(a[1], RTLD_NOW);\n"
    "  if (library == NULL) return 7;\n"
    "  int v = 0; ((int (*)(int*))dlsym(library, \"ncclGetVersion\"))(&v);\n"
    "  printf(\"version %d\\n\", v); return dlsym(library, \"ncclAnother\") != NULL;\n"
    "}\n";

/// A folder with those programs, and other/libnccl.so.2.
class DropinProgram : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string path = std::filesystem::temp_directory_path() / "dropin-test-XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    folder() = path;
    std::filesystem::create_directory(folder() / "other");
    build("other/libnccl.so.2", kOtherNccl, "-shared -fPIC -Wl,-soname,libnccl.so.2");
    const std::string other = (folder() / "other/libnccl.so.2").string() + " ";
    const std::string to_other = other + "-Wl,-rpath," + (folder() / "other").string();
    build("plain", kLinked, other);
    build("rpath", kLinked, to_other + " -Wl,--disable-new-dtags");
    build("runpath", kLinked, to_other + " -Wl,--enable-new-dtags");
    build("tomorrow", kLinkedToTomorrow, to_other);
    build("opener", kOpener, "-ldl");
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder()); }

  static std::filesystem::path& folder() {
    static std::filesystem::path path;
    return path;
  }
  static std::string program(const std::string& name) { return folder() / name; }

 private:
  static void build(const std::string& name, const char* source, const std::string& flags) {
    std::ofstream(folder() / "source.c") << source;
    const Outcome built = run_shell(fmt::format("{} {}/source.c -o {} {}", TUTTI_C_COMPILER,
                                                folder().string(), program(name), flags));
    ASSERT_EQ(built.code, 0) << built.output;
  }
};

TEST_F(DropinProgram, RunsAProgramWithTuttiInNcclsPlaceWhateverItsRpath) {
  EXPECT_EQ(run_shell(program("rpath")).output, "version 1\n");
  const Outcome outcome = run_shell(TUTTI_DROPIN_PROGRAM " -- " + program("rpath") + " 4");
  EXPECT_EQ(outcome.output, "version 22809\n");
  EXPECT_EQ(outcome.code, 4);
}

TEST_F(DropinProgram, LdLibraryPathGoesBeforeRunpathAndNotBeforeRpath) {
  const std::string variable = "LD_LIBRARY_PATH=" + kOurFolder + " ";
  EXPECT_THAT(run_shell(variable + kCheck + "-- " + program("runpath")).output,
              AllOf(StartsWith("version 22809\n"), HasSubstr("Tutti's, found by LD_LIBRARY_PATH\n"),
                    HasSubstr("Tutti is in NCCL's place")));
  EXPECT_THAT(run_shell(variable + kCheck + "-- " + program("rpath")).output,
              AllOf(StartsWith("version 1\n"),
                    HasSubstr("not Tutti's, found by DT_RPATH of " + program("rpath") + "\n"),
                    HasSubstr("DT_RPATH, which goes before LD_LIBRARY_PATH: use LD_PRELOAD=")));
}

TEST_F(DropinProgram, NamesTheRunpathOfAProgramAndHowToGoBeforeIt) {
  const Outcome outcome = run_shell(kCheck + "-- " + program("runpath"));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("found by DT_RUNPATH of " + program("runpath")),
                                    HasSubstr("put " + kOurFolder + " first in LD_LIBRARY_PATH")));
}

TEST_F(DropinProgram, ChecksWhatItRunsItself) {
  const Outcome outcome =
      run_shell(kCheck + "-- " TUTTI_DROPIN_PROGRAM " -- " + program("rpath") + " 6");
  EXPECT_EQ(outcome.code, 6);
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("found by LD_PRELOAD"), HasSubstr("1 native, 0 refused, 0 missing"),
                    HasSubstr("ncclGetVersion  native  linked  rpath")));
}

TEST_F(DropinProgram, SeesChildrenAndCountsNoShellThatOnlyHasThePreload) {
  const Outcome outcome =
      run_shell(fmt::format("LD_PRELOAD={} {}-- sh -c '{}; {}; true'", TUTTI_NCCL_LIBRARY, kCheck,
                            program("rpath"), program("plain")));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr(program("rpath") + " (process "),
                                    HasSubstr(program("plain") + " (process "),
                                    Not(HasSubstr("sh (process ")), HasSubstr("3 programs ran")));
}

TEST_F(DropinProgram, SeesWhatIsLookedUpAndWhatCouldBe) {
  const Outcome outcome =
      run_shell(kCheck + "-- " + program("opener") + " " + program("other/libnccl.so.2"));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("found by its path, which the program gave"),
                                    HasSubstr("ncclGetVersion  native   dlsym  opener"),
                                    HasSubstr("ncclAnother     missing  named  opener"),
                                    HasSubstr("no variable of the linker changes that")));
}

TEST_F(DropinProgram, SeesWhatAForkedProcessOpens) {
  const Outcome outcome =
      run_shell(kCheck + "-- " + program("opener") + " " TUTTI_NCCL_LIBRARY " fork");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("Tutti's, found by its path"), HasSubstr("ncclGetVersion  native")));
}

TEST_F(DropinProgram, AMissingCallExitsWith3) {
  const Outcome outcome = run_shell(kCheck + "-- " + program("tomorrow"));
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("ncclOfTomorrow  missing  linked  tomorrow"),
                                    HasSubstr("it lacks ncclOfTomorrow")));
}

TEST_F(DropinProgram, NoLibncclExitsWith5) {
  const Outcome none = run_shell(kCheck + "-- true");
  EXPECT_EQ(none.code, 5);
  EXPECT_THAT(none.output, HasSubstr("no process mapped a libnccl"));
  const Outcome sought = run_shell(kCheck + "-- " + program("opener") + " libnccl.so.99");
  EXPECT_EQ(sought.code, 5);
  EXPECT_THAT(sought.output, AllOf(HasSubstr("status 7"), HasSubstr("no libnccl was found")));
}

TEST_F(DropinProgram, WritesItsReportAsJsonApartFromTheProgramsOutput) {
  const Outcome outcome =
      run_shell(TUTTI_DROPIN_PROGRAM " --check --json - -- " + program("rpath") + " 3 2>/dev/null");
  EXPECT_EQ(outcome.code, 3);
  const auto json = nlohmann::json::parse(outcome.output);
  EXPECT_EQ(json["status"], 3);
  const auto& user = json["users"][0];
  EXPECT_EQ(user["libraries"][0]["tutti"], false);
  EXPECT_EQ(user["libraries"][0]["soname"], "libnccl.so.2");
  EXPECT_EQ(user["calls"][0]["name"], "ncclGetVersion");
  EXPECT_EQ(user["calls"][0]["state"], "native");
}

TEST_F(DropinProgram, SaysWhatIsWrongWithItsCommandLine) {
  EXPECT_EQ(run_shell(TUTTI_DROPIN_PROGRAM).code, 2);
  EXPECT_EQ(run_shell(TUTTI_DROPIN_PROGRAM " --json - -- true").code, 2);
  EXPECT_EQ(run_shell(TUTTI_DROPIN_PROGRAM " -- /no/such/program").code, 5);
  EXPECT_EQ(run_shell(kCheck + "-- /no/such/program").code, 5);
  const Outcome second = run_shell("LD_PRELOAD=" + program("other/libnccl.so.2") +
                                   " " TUTTI_DROPIN_PROGRAM " -- true");
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.output, HasSubstr("LD_PRELOAD names another libnccl"));
}

}  // namespace
}  // namespace tutti::tools
