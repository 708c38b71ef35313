// What follows from measured cells, and the program as its users call it.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tools/program/started.hpp"
#include "tools/tune/cell.hpp"
#include "tools/tune/report.hpp"
#include "tools/tune/ways.hpp"

namespace tutti::tune {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using tools::Outcome;
using tools::run_shell;

Timed timed(const std::string& algorithm, std::vector<double> us, bool kernel_reads = false) {
  return {{algorithm, kernel_reads}, std::move(us)};
}

Cell cell(std::size_t bytes, const Timed& own, std::vector<Timed> candidates) {
  return {Collective::kAllReduce, bytes, own, std::move(candidates)};
}

TEST(Cell, ChoosesTheWayWithTheLeastMedian) {
  const Finding found = fastest_way(
      cell(8, timed("ring", {5, 5, 5}),
           {timed("ring", {5, 5, 5}), timed("direct", {4, 4, 90}), timed("bruck", {1, 9, 9})}));
  EXPECT_EQ(found.way.algorithm, "direct");
  EXPECT_EQ(found.us, 4);
  EXPECT_EQ(found.next_us, 5);
}

TEST(Cell, KeepsTheOwnAlgorithmWithinTenPercent) {
  const auto chosen = [](double own_us) {
    return describe(fastest_way(cell(8, timed("ring", {200}),
                                     {timed("direct", {100}), timed("ring", {own_us}),
                                      timed("ring", {own_us - 1}, true)}))
                        .way);
  };
  EXPECT_EQ(chosen(110.9), "ring by kernel reads");
  EXPECT_EQ(chosen(111.1), "direct");
}

TEST(Cell, KeepsTheOwnAlgorithmThatIsSlowInSomeRoundsAlone) {
  const Timed own = timed("ring", {10, 10, 25, 25, 25});
  const Cell two_modes = cell(8, own, {own, timed("direct", {10, 10, 11, 11, 11})});
  EXPECT_EQ(fastest_way(two_modes).way.algorithm, "ring");
}

TEST(Cell, RegretsWhatTheOwnChoiceCostsAndNeverLessThanNothing) {
  const Cell slow = cell(8, timed("ring", {150}), {timed("direct", {100}), timed("ring", {149})});
  const Cell fast = cell(64, timed("ring", {90}), {timed("direct", {100})});
  EXPECT_DOUBLE_EQ(regret(slow), 0.5);
  EXPECT_DOUBLE_EQ(regret(fast), 0);
  const std::vector<Cell> cells = {fast, slow};
  const Summary summary = summary_of(cells);
  EXPECT_NEAR(summary.geometric_mean, std::sqrt(1.5) - 1, 1e-12);
  EXPECT_DOUBLE_EQ(summary.worst, 0.5);
  EXPECT_EQ(summary.worst_cell, &cells[1]);
  EXPECT_THAT(regret_text(cells), HasSubstr("22.5 % in the geometric mean of 2 cells, 50.0 %"));
}

TEST(Cell, StandsForTheSizesNearestToIt) {
  const auto one = [](std::size_t bytes) {
    return cell(bytes, timed("ring", {2}), {timed("ring", {2}), timed("direct", {1})});
  };
  const Arrangement four{4, 1, 4};
  const auto bounds = [&](const std::vector<Cell>& cells) {
    std::vector<std::uint64_t> all;
    for (const MeasuredRange& range : ranges_of(cells, four, 7)) {
      EXPECT_TRUE(check(range));
      EXPECT_EQ(range.measured_s, 7);
      EXPECT_EQ(range.way.algorithm, "direct");
      EXPECT_EQ(range.nanos, 1000U);
      EXPECT_EQ(range.next_nanos, 2000U);
      all.insert(all.end(), {range.from_bytes, range.to_bytes});
    }
    return all;
  };
  EXPECT_EQ(bounds({one(100)}), (std::vector<std::uint64_t>{50, 200}));
  EXPECT_EQ(bounds({one(100), one(400), one(6400)}),
            (std::vector<std::uint64_t>{50, 200, 201, 1600, 1601, 25600}));
}

TEST(Ways, AreNotThoseThatRunOnlyByNameUnlessTheyAreNamed) {
  const std::vector<int> one_host = {0, 0, 0, 0};
  const std::vector<std::string> named = {"fixed_tree"};
  EXPECT_EQ(ways_of(Collective::kAllReduce, one_host, false, named).size(), 1U);
  for (const Way& way : ways_of(Collective::kAllReduce, one_host, false, {}))
    EXPECT_NE(way.algorithm, "fixed_tree");
}

TEST(Ways, AreThoseThatLoseNothingAndCanDoIt) {
  const auto names = [](Collective collective, const std::vector<int>& host, bool large) {
    std::vector<std::string> all;
    for (const Way& way : ways_of(collective, host, large, {})) all.push_back(describe(way));
    return all;
  };
  EXPECT_THAT(names(Collective::kAllReduce, {0, 0, 0, 0}, false), Contains("two_shot"));
  EXPECT_THAT(names(Collective::kAllGather, {0, 0}, false),
              Not(Contains("direct by kernel reads")));
  EXPECT_THAT(names(Collective::kAllGather, {0, 0}, true), Contains("direct by kernel reads"));
  EXPECT_THAT(names(Collective::kAllGather, {0, 1}, true), Not(Contains("direct by kernel reads")));
  EXPECT_THAT(names(Collective::kAllReduce, {0, 0, 1, 1}, true), Contains("hierarchical_ring"));
  EXPECT_THAT(names(Collective::kAllGather, {0, 0, 0}, true), Not(Contains("recursive_doubling")));
}

class Program : public ::testing::Test {
 protected:
  Program() : folder_(::testing::TempDir() + "tune-" + std::to_string(::getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~Program() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string file(const std::string& name) const { return folder_ + "/" + name; }
  [[nodiscard]] static std::string contents(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  [[nodiscard]] Outcome tune(const std::string& arguments,
                             const std::string& environment = "") const {
    return run_shell(environment + " TUTTI_TUNING_FILE=none " TUTTI_TUNE_PROGRAM " " + arguments);
  }

  const std::string folder_;
};

constexpr const char* kQuick =
    " all_reduce all_gather --ranks 2 -b 64 -e 4K -f 64 --time-per-cell 0.01 ";

TEST_F(Program, WritesATableThatCommunicatorsOfTheSameRanksRun) {
  const Outcome outcome = tune(kQuick + ("--algo ring -o " + file("table.json")));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("all_gather"));
  const auto table = MeasuredTable::parse(contents(file("table.json")));
  ASSERT_TRUE(table) << table.error().what;
  ASSERT_EQ(table->ranges().size(), 4U);
  std::map<std::pair<std::string, std::uint64_t>, std::string> chosen;
  for (const MeasuredRange& range : table->ranges()) {
    EXPECT_THAT(range.way.algorithm, AnyOf("ring", "one_shot", "direct")) << "or what the rules do";
    EXPECT_EQ(range.arrangement, (Arrangement{2, 1, 2, range.arrangement.topology}));
    EXPECT_NE(range.arrangement.topology, 0U);
    EXPECT_GT(range.nanos, 0U);
    chosen[{std::string(name_of(range.collective)), range.at_bytes}] = range.way.algorithm;
  }
  const Outcome check = tune(kQuick + std::string("--check --json ") + file("check.json"),
                             "TUTTI_TUNING_TABLE=" + file("table.json"));
  ASSERT_EQ(check.code, 0) << check.output;
  const auto json = nlohmann::json::parse(contents(file("check.json")));
  ASSERT_EQ(json["cells"].size(), 4U);
  for (const auto& each : json["cells"])
    EXPECT_EQ(each["own"]["algorithm"], (chosen[{each["collective"], each["bytes"]}]));
}

TEST_F(Program, AddsToTheTableThatIsThereAndToNothingElse) {
  ASSERT_EQ(tune(kQuick + ("--algo ring -o " + file("a.json"))).code, 0);
  ASSERT_EQ(tune("broadcast --ranks 2 -b 64 -e 64 --time-per-cell 0.01 -o " + file("a.json")).code,
            0);
  EXPECT_EQ(MeasuredTable::parse(contents(file("a.json")))->ranges().size(), 5U);
  std::ofstream(file("notes")) << "mine";
  const Outcome refused = tune(kQuick + ("-o " + file("notes")));
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.output, HasSubstr("stays as it is"));
  EXPECT_EQ(contents(file("notes")), "mine");
}

TEST_F(Program, MergesTables) {
  MeasuredRange old{Collective::kAllReduce, {2, 1, 2}, 0, 100, {"ring", false}, 10, 1, 2, 1};
  MeasuredRange newer{Collective::kAllReduce, {2, 1, 2}, 50, 60, {"direct", false}, 55, 1, 2, 2};
  MeasuredTable a, b;
  a.add(newer);
  b.add(old);
  std::ofstream(file("a.json")) << a.text();
  std::ofstream(file("b.json")) << b.text();
  const Outcome outcome =
      tune("--merge " + file("a.json") + " " + file("b.json") + " -o " + file("c.json"));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  a.merge(b);
  EXPECT_EQ(contents(file("c.json")), a.text());
  std::ofstream(file("b.json")) << "nonsense";
  const Outcome broken = tune("--merge " + file("a.json") + " " + file("b.json") + " -o -");
  EXPECT_EQ(broken.code, 3) << broken.output;
  EXPECT_THAT(broken.output, HasSubstr("b.json': "));
}

TEST_F(Program, SaysWhatItDoesNotUnderstand) {
  EXPECT_THAT(tune("all_redcue").output, HasSubstr("all_reduce"));
  EXPECT_EQ(tune("all_reduce --algo rign").code, 2);
  EXPECT_THAT(tune("all_reduce --algo rign").output, HasSubstr("did you mean 'ring'"));
  EXPECT_EQ(tune("--merge x").code, 2);
  EXPECT_EQ(tune("-b 0").code, 2);
  EXPECT_EQ(tune("--expect 10").code, 2);
}

TEST_F(Program, FailsWhereTheRegretIsAboveWhatIsExpected) {
  MeasuredTable table;
  for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather})
    table.add({collective, {2, 1, 2}, 0, 1 << 20, {"ring", false}, 64, 1, 2, 1});
  std::ofstream(file("ring.json")) << table.text();
  const Outcome outcome = tune(
      "all_reduce --ranks 2 -b 1K -e 1K --time-per-cell 0.01 --check "
      "--expect 1000000",
      "TUTTI_TUNING_TABLE=" + file("ring.json"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("# regret: "));
}

}  // namespace
}  // namespace tutti::tune
