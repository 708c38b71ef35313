// What `tutti explain` says, and the program itself.
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/explain/candidates.hpp"
#include "tools/explain/compressed.hpp"
#include "tools/explain/nics.hpp"
#include "tools/program/started.hpp"
#include "tools/sim/machine.hpp"

namespace tutti::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A megabyte of floats over 2 hosts of 2 ranks.
Question two_by_two(Collective collective) {
  Question question;
  question.placement.host = {0, 0, 1, 1};
  question.request = {.collective = collective,
                      .ranks = 4,
                      .layout = ir::Layout::of_hosts(question.placement.host)};
  question.count = 250'000;
  return question;
}

const Candidate& candidate(const Explanation& explanation, const std::string& name) {
  for (const Candidate& each : explanation.candidates)
    if (each.name == name) return each;
  static const Candidate none;
  ADD_FAILURE() << name << " is not among the candidates";
  return none;
}

TEST(Explain, ChoosesAsCommunicatorsDoAndComparesAllOthersWithIt) {
  const auto found = explain(two_by_two(Collective::kAllReduce));
  ASSERT_TRUE(found) << found.error().what;
  EXPECT_EQ(found->algorithm, "hierarchical_ring");
  EXPECT_EQ(found->chosen().name, "hierarchical_ring");
  const Candidate& ring = candidate(*found, "ring");
  ASSERT_TRUE(ring.us && found->chosen().us);
  EXPECT_NEAR(*ring.us / *found->chosen().us, 1.5, 0.1)
      << "a ring crosses hosts 1.5 times as often";
  EXPECT_THAT(ring.why, HasSubstr("carries 1.5 times the bytes"));
}

TEST(Explain, SaysWhatAnAlgorithmLacks) {
  Question question = two_by_two(Collective::kAllGather);
  question.placement.host.assign(6, 0);
  question.request = {.collective = Collective::kAllGather, .ranks = 6};
  const auto found = explain(question);
  ASSERT_TRUE(found) << found.error().what;
  EXPECT_THAT(candidate(*found, "hierarchical_ring").why, HasSubstr("several hosts"));
  EXPECT_THAT(candidate(*found, "recursive_doubling").why, HasSubstr("does not do 6 ranks"));
  EXPECT_FALSE(candidate(*found, "recursive_doubling").us);
}

TEST(Explain, KeepsToWhatIsAskedFor) {
  Question question = two_by_two(Collective::kAllReduce);
  question.policy.forced = "ring";
  const auto found = explain(question);
  ASSERT_TRUE(found) << found.error().what;
  EXPECT_TRUE(found->forced);
  EXPECT_EQ(found->algorithm, "ring");
  EXPECT_EQ(candidate(*found, "hierarchical_ring").why, "another was asked for");
}

TEST(Explain, ChoosesByTheModelWhereTheLibraryHasACalibration) {
  Question question = two_by_two(Collective::kAllReduce);
  question.calibration.between.latency_us = 50'000;  // so that what counts is how many rounds
  const auto ruled = explain(question);
  question.policy.calibration = question.calibration;
  const auto found = explain(question);
  ASSERT_TRUE(ruled && found);
  EXPECT_NE(found->algorithm, ruled->algorithm);
  EXPECT_THAT(found->reason, HasSubstr("predicted: "));
  EXPECT_EQ(found->candidates.front().name, found->algorithm) << "the fastest by the model";
}

Outcome run(const std::string& options) {
  return run_shell(fmt::format("{} {}", TUTTI_EXPLAIN_PROGRAM, options));
}

/// On a gigabit, a quarter of the bytes is a quarter of the time, but for small calls.
TEST(ExplainCompressed, SaysHowOftenItRoundsAndFromWhereItPays) {
  Question question = two_by_two(Collective::kAllReduce);
  question.count = 16'000'000;
  const auto call = explain_compressed(question, "int8");
  ASSERT_TRUE(call) << call.error().what;
  EXPECT_EQ(call->format, "int8:block=128:scale=fp16");
  EXPECT_EQ(call->algorithm, "hierarchical_direct");
  EXPECT_EQ(call->roundings, 2U);
  EXPECT_TRUE(call->between_hosts);
  EXPECT_GT(call->plain_us / call->us, 3);
  ASSERT_TRUE(call->pays_from);
  EXPECT_LE(*call->pays_from, std::size_t{1} << 20);
}

TEST(ExplainCompressed, RefusesWhatIsNotCompressed) {
  Question question = two_by_two(Collective::kAllReduce);
  question.op = ReduceOp::kMax;
  const auto call = explain_compressed(question, "int8");
  ASSERT_FALSE(call);
  EXPECT_THAT(call.error().what, HasSubstr("sums, averages and copies"));
}

TEST(ExplainCompressed, TakesTheFormatOfTheSetting) {
  EXPECT_EQ(format_of_setting("all_gather:bf16,all_reduce:int4", Collective::kAllReduce),
            "int4:block=32:scale=fp16");
  EXPECT_EQ(format_of_setting("all_gather:bf16", Collective::kAllReduce), "");
}

TEST(ExplainProgram, PrintsTheChoiceAndWritesJson) {
  const Outcome text = run("all_reduce 4M --layout 2x4");
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.output, HasSubstr("hierarchical_ring runs: "));
  const Outcome json = run("all_reduce 4M --layout 2x4 --json -");
  EXPECT_EQ(json.code, 0);
  EXPECT_THAT(json.output, HasSubstr("\"algorithm\": \"hierarchical_ring\""));
  EXPECT_THAT(json.output, HasSubstr("\"predicted_us\""));
}

TEST(ExplainNics, TellsTheOwnNicOfEachGpuOfADgxH100) {
  const auto noted = simtool::load_topology("2x dgx-h100 over rail-optimised");
  ASSERT_TRUE(noted) << noted.error().what;
  const auto machine = simtool::machine_of("two", noted->topology);
  ASSERT_TRUE(machine) << machine.error().what;
  const auto rows = near_nics(*machine->topology, machine->placement);
  ASSERT_EQ(rows.size(), 16U);
  EXPECT_EQ(rows[11],
            (NearNics{"h1", "gpu3", {11}, {"nic3"}, "PIX", "on the PCI switch of gpu3 (PIX)", 63}));
  EXPECT_THAT(text_of(rows),
              AllOf(HasSubstr("of h0, and the same on one host more:"),
                    HasSubstr("3     gpu3  nic3         63  on the PCI switch of gpu3"),
                    Not(HasSubstr("11"))));
}

TEST(ExplainNics, TellsHostsApartThatDiffer) {
  const std::vector<NearNics> rows = {
      {"a", "cpu0", {0, 1}, {"eth0", "eth1"}, "PHB", "on cpu0 (PHB)", 12.5},
      {"b", "cpu0", {2}, {}, "", "", 0}};
  EXPECT_THAT(text_of(rows), AllOf(HasSubstr("a/cpu0  eth0 eth1       12.5  on cpu0 (PHB)"),
                                   HasSubstr("b/cpu0  none               -")));
  EXPECT_EQ(text_of({rows[1]}), "");
  EXPECT_EQ(text_of({}), "");
}

TEST(ExplainProgram, TellsNicsOfCallsBetweenHosts) {
  const char* const kTwo = "all_reduce 4M --topology '2x dgx-h100 over rail-optimised'";
  EXPECT_THAT(run(kTwo).output, HasSubstr("on the PCI switch of gpu7 (PIX)"));
  const Outcome json = run(fmt::format("{} --json -", kTwo));
  EXPECT_THAT(json.output, HasSubstr("\"place\": \"on the PCI switch of gpu7 (PIX)\""));
  EXPECT_THAT(run("all_reduce 4M --topology dgx-h100").output, Not(HasSubstr("NICs near")));
  EXPECT_THAT(run("all_reduce 4M -n 4 --json -").output, Not(HasSubstr("\"nics\"")));
}

TEST(ExplainProgram, TellsNicsOfHostsLikeThisOne) {
  const std::string path = testing::TempDir() + "explain_test.json";
  std::ofstream(path) << R"({"format": "tutti-topology", "version": 1, "hosts": [{"name": "h"}],
    "nodes": [{"kind": "cpu", "host": 0, "name": "cpu0"},
              {"kind": "nic", "host": 0, "name": "eth0"}],
    "links": [{"from": 0, "to": 1, "kind": "pci", "bandwidth": 12, "latency": 1, "duplex": true}]})";
  const Outcome here = run_shell(
      fmt::format("TUTTI_TOPO_FILE={} {} all_reduce 4M --layout 2x2", path, TUTTI_EXPLAIN_PROGRAM));
  std::filesystem::remove(path);
  EXPECT_THAT(here.output, AllOf(HasSubstr("of a host like this one:"),
                                 HasSubstr("cpu0  eth0         12  on cpu0 (")));
}

TEST(ExplainProgram, TakesThisMachineWhereNoneIsNamed) {
  const Outcome here = run("all_reduce 4M");
  EXPECT_EQ(here.code, 0);
  EXPECT_THAT(here.output, HasSubstr("ranks, as many as processors here"));
  EXPECT_THAT(here.output, HasSubstr(" runs: "));
}

TEST(ExplainProgram, RefusesWhatMakesNoSense) {
  EXPECT_THAT(run("all_reduce 4M -n 2 --layout 1x2").output, HasSubstr("say who calls"));
  EXPECT_THAT(run("all_reduce 1 -n 4").output, HasSubstr("less than an element"));
  EXPECT_THAT(run("all_redoce 4M -n 4").output, HasSubstr("did you mean 'all_reduce'"));
  EXPECT_THAT(run("broadcast 4M -n 4 --root 4").output, HasSubstr("none of 4 ranks"));
  EXPECT_EQ(run("all_reduce 4M -n 4 --calibration /nonexistent").code, 5);
}

}  // namespace
}  // namespace tutti::tools
