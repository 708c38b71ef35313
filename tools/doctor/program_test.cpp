// Whole runs of tutti doctor, as users start it.
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "src/base/whole_file.hpp"
#include "tools/program/started.hpp"

namespace tutti::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kDoctor = TUTTI_DOCTOR_PROGRAM;

/// As so many ranks of this machine, each of which takes itself for a host.
Outcome as_hosts(int ranks, const std::string& arguments, const std::string& before = "") {
  return run_shell(fmt::format(
      "{} -n {} --keep-going --no-prefix -- sh -c 'export TUTTI_HOSTID=h$RANK; {} exec {} {}'",
      TUTTI_RUN_PROGRAM, ranks, before, kDoctor, arguments));
}

class Folder {
 public:
  Folder() : path_(testing::TempDir() + "doctor." + std::to_string(::getpid())) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

TEST(Doctor, AloneChecksThisMachine) {
  const Outcome outcome = run_shell(fmt::format("{} --json - 2>/dev/null", kDoctor));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  const auto json = nlohmann::json::parse(outcome.output);
  EXPECT_EQ(json["hosts"].size(), 1U);
  EXPECT_EQ(json["pairs"].size(), 0U);
  EXPECT_NE(json["hosts"][0]["kernel"], "");
}

TEST(Doctor, MeasuresAllPairsOfAJob) {
  const Outcome outcome = as_hosts(3, "--json - 2>/dev/null");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  const auto json = nlohmann::json::parse(outcome.output);
  ASSERT_EQ(json["hosts"].size(), 3U);
  ASSERT_EQ(json["pairs"].size(), 3U);
  for (const auto& pair : json["pairs"]) {
    EXPECT_EQ(pair["first_reaches_second"]["reach"], "reached");
    EXPECT_EQ(pair["second_reaches_first"]["reach"], "reached");
    EXPECT_GT(pair["tcp"]["latency_us"], 0);
    EXPECT_GT(pair["tcp"]["there_mb_s"], 0);
  }
}

TEST(Doctor, OneRankOfEachHostTakesPart) {
  const Outcome outcome = run_shell(
      fmt::format("{} -n 4 --no-prefix -- sh -c 'export TUTTI_HOSTID=h$((RANK / 2)); exec {}'",
                  TUTTI_RUN_PROGRAM, kDoctor));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("(rank 0)"), HasSubstr("(rank 2)"),
                                    Not(HasSubstr("(rank 1)")), HasSubstr("2 hosts, 1 pair")));
}

TEST(Doctor, NamesARankThatDoesNotComeAndReportsTheOthers) {
  const Outcome outcome = as_hosts(3, "--timeout 2", "[ $RANK = 1 ] && exit 0;");
  EXPECT_EQ(outcome.code, 6) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("rank 1 did not answer: it did not come within 2 s"),
                                    HasSubstr("(rank 0) - "), HasSubstr("2 hosts, 1 pair")));
}

TEST(Doctor, NamesARankThatCannotListen) {
  const Outcome outcome =
      as_hosts(2, "--timeout 5", "[ $RANK = 1 ] && export TUTTI_SOCKET_IFNAME=nosuch;");
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(
      outcome.output,
      HasSubstr("rank 1 did not answer: no network interface fits SOCKET_IFNAME=\"nosuch\""));
}

TEST(Doctor, ARankWithoutRankZeroSaysWhereItLooked) {
  const Outcome outcome = as_hosts(2, "--timeout 1", "[ $RANK = 0 ] && exit 0;");
  EXPECT_EQ(outcome.code, 6) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("no hub answered at 127.0.0.1"));
}

TEST(Doctor, DifferentSettingsAreAWarningAndAnErrorIfStrict) {
  const std::string sets = "[ $RANK = 1 ] && export TUTTI_TCP_SOCKETS=2;";
  const Outcome outcome = as_hosts(2, "", sets);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("TUTTI_TCP_SOCKETS differs"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("TUTTI_JOB_KEY")));
  EXPECT_EQ(as_hosts(2, "--strict", sets).code, 5);
}

TEST(Doctor, MistakesOfUsage) {
  EXPECT_EQ(run_shell(fmt::format("{} --timout 3", kDoctor)).code, 2);
  EXPECT_EQ(run_shell(fmt::format("{} --timeout 0", kDoctor)).code, 2);
  const Outcome unwritable = run_shell(fmt::format("{} --json /nowhere/x", kDoctor));
  EXPECT_EQ(unwritable.code, 5);
  EXPECT_THAT(unwritable.output, HasSubstr("cannot write '/nowhere/x'"));
}

/// What takes the place of ssh: "hosts" are identities on this machine.
class Ssh : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string script =
        "#!/bin/sh\n"
        "host=$1; shift\n"
        "[ \"$host\" = down ] && { echo \"ssh: cannot reach $host\" >&2; exit 255; }\n"
        "export TUTTI_HOSTID=$host\n"
        "exec sh -c \"$*\"\n";
    ASSERT_TRUE(write_file(folder_.file("ssh"), script));
    std::filesystem::permissions(folder_.file("ssh"), std::filesystem::perms::owner_all);
  }
  [[nodiscard]] Outcome doctor(const std::string& arguments) const {
    return run_shell(fmt::format("{} --ssh {} {}", kDoctor, folder_.file("ssh"), arguments));
  }

  Folder folder_;
};

TEST_F(Ssh, HostsThatAreNamedAreChecked) {
  const Outcome outcome = doctor("--timeout 10 localhost node2 node3");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr(" - node2"), HasSubstr("node2 - node3"),
                                    HasSubstr("3 hosts, 3 pairs: 0 errors")));
}

TEST_F(Ssh, OneHostIsCheckedTogetherWithThisMachine) {
  const Outcome outcome = doctor("--timeout 10 node2");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("2 hosts, 1 pair"));
}

TEST_F(Ssh, SettingsReachOtherHostsAndTheKeyIsOnNoCommandLine) {
  const Outcome outcome = run_shell(fmt::format(
      "sed -i 's/^exec/echo \"ran: $*\" >\\&2\\nexec/' {0}; TUTTI_TCP_SOCKETS=2 {1} --ssh {0} "
      "--timeout 10 --json {2} localhost node2",
      folder_.file("ssh"), kDoctor, folder_.file("result.json")));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("ran: exec '"), HasSubstr("2 hosts, 1 pair"),
                                    Not(HasSubstr("TUTTI_"))));
  const auto text = read_file(folder_.file("result.json"), std::size_t{1} << 20);
  ASSERT_TRUE(text);
  const auto json = nlohmann::json::parse(*text);
  EXPECT_EQ(json["hosts"][1]["name"], "node2");
  EXPECT_EQ(json["hosts"][1]["settings"]["TUTTI_TCP_SOCKETS"], "2");
}

TEST_F(Ssh, AFileThatCannotBeWrittenIsToldBeforeAnyHostIsAsked) {
  const Outcome outcome = doctor("--json /nowhere/x localhost down");
  EXPECT_EQ(outcome.code, 5);
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("cannot write '/nowhere/x'"), Not(HasSubstr("cannot reach"))));
}

TEST_F(Ssh, AHostThatSshDoesNotReachIsNamed) {
  const Outcome outcome = doctor("--timeout 3 localhost down node2");
  EXPECT_EQ(outcome.code, 6) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("error: down"), HasSubstr("did not come within 3 s"),
                                    HasSubstr("2 hosts, 1 pair")));
}

}  // namespace
}  // namespace tutti::tools
