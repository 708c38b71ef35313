// tutti algo: what it lists, proves, draws and writes.
#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "algorithms/algorithms.hpp"
#include "tools/algo/export.hpp"
#include "tools/algo/proofs.hpp"
#include "tools/algo/traffic.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/started.hpp"

namespace tutti::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Outcome tutti(const std::string& arguments) { return run_shell(TUTTI_PROGRAM " " + arguments); }

std::string scratch_file(const std::string& name) {
  return testing::TempDir() + "tutti_algo_test." + std::to_string(::getpid()) + "." + name;
}

TEST(Algo, AShownScheduleCanBeProvedFromItsFile) {
  const std::string file = scratch_file("ring.txt");
  ASSERT_EQ(tutti("algo show ring -n 4 -o " + file).code, 0);
  const Outcome outcome = tutti("algo verify " + file);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("1 schedules"));
  EXPECT_EQ(tutti("algo verify file:" + file).code, 0) << "in the words of TUTTI_ALGO";
  EXPECT_EQ(tutti("algo show file:" + file).output, tutti("algo show " + file).output);
  std::remove(file.c_str());
}

TEST(Algo, AWrongScheduleInAFileIsWrongDataAndNamed) {
  const std::string file = scratch_file("bad.txt");
  // Rank 1's first message goes to itself instead of on around the ring.
  ASSERT_EQ(tutti("algo show ring -n 3 | sed '0,/to 2/s/to 2/to 0/' > " + file).code, 0);
  const Outcome outcome = tutti("algo verify " + file);
  EXPECT_EQ(outcome.code, kExitWrongData) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("rank"));
  std::remove(file.c_str());
}

TEST(Algo, AFileThatIsNotThereIsSaidToBeMissing) {
  for (const char* command : {"verify", "show"}) {
    const Outcome outcome = tutti(std::string("algo ") + command + " nope.xml");
    EXPECT_EQ(outcome.code, kExitEnvironment) << command;
    EXPECT_THAT(outcome.output, HasSubstr("cannot open 'nope.xml': No such file")) << command;
  }
  EXPECT_EQ(tutti("algo show ring -n 4 -o /nowhere/a.txt").code, kExitEnvironment);
  EXPECT_EQ(tutti("algo verify ring -n 4 --json /nowhere/a.json").code, kExitEnvironment);
}

TEST(Algo, ItsJsonIsForOtherProgramsAndSaysSo) {
  const std::string file = scratch_file("a.json");
  ASSERT_EQ(tutti("algo show ring -n 4 -o " + file).code, 0);
  for (const char* command : {"algo verify ", "algo show "}) {
    const Outcome outcome = tutti(command + file);
    EXPECT_EQ(outcome.code, kExitWrongData) << command;
    EXPECT_THAT(outcome.output, HasSubstr("which is for other programs: write FILE.txt"));
  }
  std::remove(file.c_str());
}

TEST(Algo, AFileThatIsNoScheduleIsRefusedWithItsLine) {
  const std::string file = scratch_file("noise.txt");
  std::ofstream(file) << "tutti-schedule 1\nwhatever\n";
  const Outcome outcome = tutti("algo verify " + file);
  EXPECT_EQ(outcome.code, kExitWrongData);
  EXPECT_THAT(outcome.output, HasSubstr("line 2"));
  EXPECT_EQ(tutti("algo show " + file).code, kExitWrongData);
  std::remove(file.c_str());
}

TEST(Algo, AScheduleInXmlSaysWhatItCannotExpress) {
  const Outcome rooted = tutti("algo show direct -n 4 --coll broadcast --root 2 -o x.xml");
  EXPECT_EQ(rooted.code, kExitUsage) << rooted.output;
  EXPECT_THAT(rooted.output, HasSubstr("root 2 cannot be expressed in MSCCL's XML"));
  const Outcome coded = tutti("algo show two_shot -n 4 --compress all -o x.xml");
  EXPECT_EQ(coded.code, kExitUsage) << coded.output;
  EXPECT_THAT(coded.output, HasSubstr("which has no formats"));
}

TEST(Algo, EveryAlgorithmIsListed) {
  const Outcome outcome = tutti("algo list");
  for (const ir::Algorithm& algorithm : algorithms::all())
    EXPECT_THAT(outcome.output, HasSubstr(std::string(algorithm.name) + " "));
}

TEST(Algo, TheListSaysWhichAlgorithmsNeedALayoutAndWhatTheyDoOverIt) {
  const Outcome outcome = tutti("algo list --json -");
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  std::map<std::string, nlohmann::json> listed;
  for (const auto& algorithm : nlohmann::json::parse(outcome.output)) {
    EXPECT_FALSE(algorithm["collectives"].empty()) << algorithm["name"];
    listed[algorithm["name"]] = algorithm;
  }
  EXPECT_EQ(listed["ring"]["for"], "any ranks");
  EXPECT_EQ(listed["hierarchical_ring"]["for"], "two levels");
  EXPECT_EQ(listed["leader_doubling"]["for"], "two levels");
  EXPECT_EQ(listed["torus"]["for"], "grid");
  EXPECT_EQ(listed["hierarchical_pairwise"]["collectives"], nlohmann::json({"all_to_all"}));
}

TEST(Algo, AScheduleOfALayoutKeepsItInEveryForm) {
  const std::string file = scratch_file("two_levels");
  for (const char* suffix : {".txt", ".xml"}) {
    ASSERT_EQ(tutti("algo show leader_tree --layout 3,2 -o " + file + suffix).code, 0) << suffix;
    const Outcome verified = tutti("algo verify --json - " + file + suffix);
    ASSERT_EQ(verified.code, 0) << verified.output;
    EXPECT_EQ(nlohmann::json::parse(verified.output)[0]["layouts"], nlohmann::json({"3,2"}));
  }
  ASSERT_EQ(tutti("algo show " + file + ".txt -o " + file + ".json").code, 0);
  std::ifstream json(file + ".json");
  EXPECT_EQ(nlohmann::json::parse(json)["layout"], "3,2");
  EXPECT_EQ(tutti("algo show " + file + ".txt --layout 3,2").code, kExitUsage);
  for (const char* suffix : {".txt", ".xml", ".json"}) std::remove((file + suffix).c_str());
}

TEST(Algo, ProofsOfTwoLevelsCoverTheLayoutsOfSoManyRanks) {
  const Outcome outcome = tutti("algo verify --all -n 2..6 --coll all_reduce --json -");
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  std::map<std::string, nlohmann::json> rows;
  for (const auto& row : nlohmann::json::parse(outcome.output)) rows[row["algorithm"]] = row;
  EXPECT_TRUE(rows["ring"]["layouts"].empty());
  const std::vector<std::string> layouts = rows["hierarchical_ring"]["layouts"];
  for (const char* each : {"2x2", "2x3", "3x2", "2,1", "1,3,2", "2x2:0,2,1,3"})
    EXPECT_THAT(layouts, testing::Contains(each));
  EXPECT_EQ(rows["hierarchical_ring"]["first_ranks"], 3);
  EXPECT_THAT(std::vector<std::string>(rows["torus"]["layouts"]), Not(testing::Contains("2,1")));
}

TEST(Algo, OneLayoutIsProvedForEveryRoot) {
  const Outcome outcome = tutti("algo verify hierarchical_tree --layout 2x4 --coll broadcast");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("16 schedules"));  // 8 roots, in place and not
}

TEST(Algo, ProofsSayWhereTheyLeaveRootsOut) {
  const auto rows_of = [](const std::string& ranks) {
    const Outcome outcome = tutti("algo verify binomial --coll gather --json - -n " + ranks);
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return nlohmann::json::parse(outcome.output);
  };
  EXPECT_EQ(rows_of("64")[0]["every_root"], true);
  EXPECT_EQ(rows_of("64")[0]["schedules"], 128);
  EXPECT_EQ(rows_of("65")[0]["every_root"], false);
  EXPECT_EQ(rows_of("65")[0]["schedules"], 8);
  EXPECT_THAT(tutti("algo verify binomial --coll gather -n 65").output,
              HasSubstr("of more than 64 ranks, only roots 0, 1, n/2 and n-1 were proved"));
}

/// Says of ranks of an odd number that it has a schedule, and is wrong.
ir::Algorithm right_for_even_ranks() {
  ir::Algorithm algorithm = algorithms::ring();
  algorithm.name = "right_for_even_ranks";
  algorithm.generate = [ring = algorithms::ring()](const ir::Request& request) {
    auto schedule = ring.generate(request);
    if (request.ranks % 2 == 1) schedule->programs.front().steps.pop_back();
    return schedule;
  };
  return algorithm;
}

TEST(Proofs, NameTheFirstScheduleThatIsWrongWithAnyNumberOfThreads) {
  const ir::Algorithm algorithm = right_for_even_ranks();
  const std::vector<Claim> claims = {
      claim_for_ranks(algorithm, Collective::kAllReduce, {.first = 2, .last = 12})};
  for (const unsigned threads : {1U, 2U, 5U}) {
    const auto rows = prove(claims, threads, [](std::size_t, std::size_t) {});
    ASSERT_FALSE(rows) << threads;
    EXPECT_THAT(rows.error().what, StartsWith("right_for_even_ranks all_reduce, 3 ranks, root 0:"))
        << threads;
  }
}

TEST(Proofs, AreTheSameWithAnyNumberOfThreads) {
  const ir::Algorithm algorithm = algorithms::ring();
  const std::vector<Claim> claims = {
      claim_for_ranks(algorithm, Collective::kAllToAll, {.first = 2, .last = 9}),
      claim_for_ranks(algorithm, Collective::kBroadcast, {.first = 2, .last = 9}),
      claim_for_layout(algorithm, Collective::kAllReduce, ir::Layout::grid({2, 2}))};
  for (const unsigned threads : {1U, 3U}) {
    const auto rows = prove(claims, threads, [](std::size_t, std::size_t) {});
    ASSERT_TRUE(rows) << rows.error().what;
    ASSERT_EQ(rows->size(), 2U);  // a ring has no all_to_all
    EXPECT_EQ((*rows)[0].schedules, 2U * (2 + 3 + 4 + 5 + 6 + 7 + 8 + 9));
    EXPECT_EQ((*rows)[0].last_ranks, 9);
    EXPECT_EQ((*rows)[1].layouts, std::vector<std::string>{"2x2"});
  }
}

ir::Schedule ring(std::int32_t ranks) {
  return *algorithms::ring().generate({.collective = Collective::kAllReduce, .ranks = ranks});
}

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::string picture_of(const ir::Schedule& schedule) {
  const auto proof = ir::verify(schedule);
  const auto traffic = traffic_of(schedule, *proof);
  return *to_svg(schedule, *proof, *traffic);
}

TEST(Picture, HasOneArrowPerMessageOfARingAndMarksTheOnesThatAdd) {
  const std::string svg = picture_of(ring(5));
  EXPECT_EQ(count(svg, "class=\"strand\""), 5U * 8U);     // 2(n-1) rounds of n messages of a chunk
  EXPECT_EQ(count(svg, "class=\"plus\""), 5U * 4U + 1U);  // the reduce-scatter half, the legend
  EXPECT_THAT(svg, StartsWith("<svg "));
  EXPECT_THAT(svg, HasSubstr("ring all_reduce, 5 ranks"));
  EXPECT_THAT(svg, HasSubstr("8 rounds; 5 chunks of data, S in all; "
                             "a rank sends 8 chunks at most, 1.6 S"));
  EXPECT_EQ(count(svg, "<text"), count(svg, "</text>"));
}

TEST(Picture, HasAStrandForEachChunkThatAMessageCarries) {
  const auto halving = algorithms::rabenseifner().generate({.ranks = 8});
  EXPECT_EQ(count(picture_of(*halving), "class=\"strand\""), 8U * 2U * (4U + 2U + 1U));
}

TEST(Picture, OfMoreThanAnyoneCanReadIsRefusedWithWhatToDo) {
  const Outcome outcome = tutti("algo show one_shot -n 200 -o x.svg");
  EXPECT_EQ(outcome.code, kExitUsage) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("39800 messages"));
  EXPECT_THAT(outcome.output, HasSubstr("take fewer ranks"));
}

ir::Schedule hierarchical_ring(std::string_view layout) {
  ir::Request request{.layout = *ir::parse_layout(layout)};
  request.ranks = static_cast<std::int32_t>(request.layout.cells.size());
  const auto known = algorithms::all();
  return *std::ranges::find(known, "hierarchical_ring", &ir::Algorithm::name)->generate(request);
}

TEST(Picture, GroupsTheLanesOfANodeUnderItsName) {
  const std::string svg = picture_of(hierarchical_ring("2x2:0,2,1,3"));
  EXPECT_EQ(count(svg, "class=\"node\""), 2U);
  EXPECT_THAT(svg, HasSubstr(">node 1<"));
  EXPECT_THAT(svg, HasSubstr("hierarchical_ring all_reduce, 4 ranks in 2 nodes"));
  const auto lane_of = [&](Rank rank) {  // its distance from the top
    const auto name = svg.find(fmt::format(">rank {}<", rank));
    const auto y = svg.rfind(" y=\"", name) + 4;
    return std::stod(svg.substr(y));
  };
  EXPECT_LT(lane_of(0), lane_of(2));  // the ranks of node 0, then those of node 1
  EXPECT_LT(lane_of(2), lane_of(1));
  EXPECT_LT(lane_of(1), lane_of(3));
  EXPECT_GT(lane_of(1) - lane_of(2), lane_of(2) - lane_of(0));
}

TEST(Picture, NamesTheLinesOfAGridByTheirCoordinates) {
  const std::string svg = picture_of(hierarchical_ring("2x1x2"));
  EXPECT_THAT(svg, AllOf(HasSubstr(">line 0,0<"), HasSubstr(">line 1,0<")));
}

TEST(Traffic, NamesDataByWhatItIsWhereverItLies) {
  const auto chunks_to_rank_0 = [](const ir::Algorithm& algorithm, Collective collective) {
    const auto schedule = algorithm.generate({.collective = collective, .ranks = 4});
    const auto traffic = traffic_of(*schedule, *ir::verify(*schedule));
    std::vector<std::vector<std::uint32_t>> chunks;
    for (const Arrow& arrow : traffic->arrows)
      if (arrow.destination == 0) chunks.push_back(arrow.chunks);
    return chunks;
  };
  using Chunks = std::vector<std::vector<std::uint32_t>>;
  // Every rank's own block is chunk 0 of its input.
  EXPECT_EQ(chunks_to_rank_0(algorithms::ring(), Collective::kAllGather), (Chunks{{3}, {2}, {1}}));
  // Rank 2 sends blocks 2 and 3 from scratch, which are sized like one chunk.
  EXPECT_EQ(chunks_to_rank_0(algorithms::binomial(), Collective::kGather), (Chunks{{1}, {2, 3}}));
}

TEST(Traffic, IsPartialUntilAllContributionsAreIn) {
  const ir::Schedule schedule = ring(3);
  const auto traffic = traffic_of(schedule, *ir::verify(schedule));
  for (const Arrow& arrow : traffic->arrows) EXPECT_EQ(arrow.is_partial, arrow.round <= 2);
}

TEST(Algo, RoundsAreListedAsText) {
  const Outcome outcome = tutti("algo show ring -n 2 --rounds");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.output,
            "ring all_reduce, 2 ranks\n"
            "2 rounds; 2 chunks of data, S in all; a rank sends 2 chunks at most, 1 S\n\n"
            "ROUND  FROM  TO  CHUNKS  ON ARRIVAL\n"
            "    1     0   1  1       added\n"
            "    1     1   0  0       added\n"
            "    2     0   1  0       kept\n"
            "    2     1   0  1       kept\n");
  EXPECT_EQ(tutti("algo show ring -n 2 --rounds -o x.svg").code, kExitUsage);
}

TEST(Json, HoldsEveryStep) {
  const ir::Schedule schedule = ring(4);
  const auto json = nlohmann::json::parse(to_json(schedule));
  EXPECT_EQ(json["ranks"], 4);
  for (Rank rank = 0; rank < 4; ++rank)
    EXPECT_EQ(json["programs"][rank]["steps"].size(), schedule.programs[rank].steps.size());
}

}  // namespace
}  // namespace tutti::tools
