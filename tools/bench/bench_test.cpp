// The pure parts of tutti-bench but for its data: shapes, options, statistics, reports.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tools/bench/options.hpp"
#include "tools/bench/report.hpp"
#include "tools/bench/shape.hpp"
#include "tools/bench/stats.hpp"
#include "tools/program/sizes.hpp"

namespace tutti::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// ------------------------------------------------------------------------------------ shapes

TEST(Shape, BandwidthFactorsAreNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kAllReduce, 4), 1.5);
  for (const Collective test : {Collective::kAllGather, Collective::kReduceScatter,
                                Collective::kAllToAll, Collective::kGather, Collective::kScatter}) {
    EXPECT_DOUBLE_EQ(bus_factor(test, 4), 0.75) << test_name(test);
  }
  for (const Collective test : {Collective::kBroadcast, Collective::kReduce, kSendRecv}) {
    EXPECT_DOUBLE_EQ(bus_factor(test, 4), 1) << test_name(test);
  }
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kAllReduce, 1), 0);
}

TEST(Shape, AlgorithmBandwidthIsBytesPerTime) {
  const Shape shape{Collective::kAllGather, DataType::kFloat32, ReduceOp::kSum, 4, 0, 250};
  EXPECT_EQ(shown_bytes(shape), 4000u);
  EXPECT_DOUBLE_EQ(algorithm_bandwidth(shape, 2), 2);
  EXPECT_EQ(algorithm_bandwidth(shape, 0), 0);
}

TEST(Shape, CountsSplitTheSizeOverTheRanksThatShareIt) {
  EXPECT_EQ(count_for(Collective::kAllReduce, DataType::kFloat32, 4, 64), 16u);
  EXPECT_EQ(count_for(Collective::kAllGather, DataType::kFloat32, 4, 64), 4u);
  EXPECT_EQ(count_for(kSendRecv, DataType::kFloat64, 4, 64), 8u);
  EXPECT_EQ(count_for(Collective::kAllToAll, DataType::kFloat32, 16, 8), 1u);
  EXPECT_EQ(count_for(Collective::kAllReduce, DataType::kInt8, 3, 0), 0u);
}

TEST(Shape, ShownSizeIsTheLargestBufferOfAnyRank) {
  for (const Collective test : all_tests()) {
    const Shape shape{test, DataType::kInt32, ReduceOp::kSum, 5, 2, 7};
    std::size_t largest = 0;
    for (Rank rank = 0; rank < 5; ++rank) {
      const Blocks blocks = blocks_of(shape, rank);
      largest = std::max({largest, blocks.send, blocks.recv});
    }
    EXPECT_EQ(shown_bytes(shape), largest * 28) << test_name(test);
  }
}

TEST(Shape, InPlaceBuffersLieWhereNcclPutsThem) {
  const auto offsets = [](Collective test, Rank rank) {
    const auto blocks = in_place_offsets({test, DataType::kInt8, ReduceOp::kSum, 4, 1, 1}, rank);
    return blocks ? std::pair<int, int>(blocks->send, blocks->recv) : std::pair<int, int>(-1, -1);
  };
  EXPECT_EQ(offsets(Collective::kAllReduce, 2), std::pair(0, 0));
  EXPECT_EQ(offsets(Collective::kAllGather, 2), std::pair(2, 0));
  EXPECT_EQ(offsets(Collective::kReduceScatter, 2), std::pair(0, 2));
  EXPECT_EQ(offsets(Collective::kGather, 1), std::pair(1, 0));
  EXPECT_EQ(offsets(Collective::kScatter, 1), std::pair(0, 1));
  EXPECT_EQ(offsets(Collective::kAllToAll, 2), std::pair(-1, -1));
  EXPECT_EQ(offsets(kSendRecv, 2), std::pair(-1, -1));
}

TEST(Shape, ProgramNamesChooseTheCollective) {
  EXPECT_EQ(test_by_program("/a/b/all_reduce_perf"), Collective::kAllReduce);
  EXPECT_EQ(test_by_program("alltoall_perf"), Collective::kAllToAll);
  EXPECT_EQ(test_by_program("sendrecv_perf"), kSendRecv);
  EXPECT_EQ(test_by_program("tutti-bench"), std::nullopt);
  EXPECT_EQ(test_by_program("foo_perf"), std::nullopt);
}

// ----------------------------------------------------------------------------------- options

Result<ParsedOptions> parse(std::vector<std::string> arguments) { return parse_options(arguments); }

Options run_of(std::vector<std::string> arguments) {
  auto parsed = parse(std::move(arguments));
  EXPECT_TRUE(parsed) << parsed.error().what;
  return parsed ? parsed->run.value_or(Options{}) : Options{};
}

std::string refusal(std::vector<std::string> arguments) {
  const auto parsed = parse(std::move(arguments));
  EXPECT_FALSE(parsed);
  return parsed ? "" : parsed.error().what;
}

TEST(Options, NcclTestsCommandLinesWork) {
  const Options options = run_of({"all_reduce_perf",
                                  "-b",
                                  "8",
                                  "-e",
                                  "128M",
                                  "-f",
                                  "2",
                                  "-g",
                                  "4",
                                  "-t2",
                                  "-n",
                                  "20",
                                  "-w",
                                  "5",
                                  "-c",
                                  "0",
                                  "-o",
                                  "max",
                                  "-d",
                                  "half",
                                  "-z",
                                  "1",
                                  "-m",
                                  "3"});
  EXPECT_THAT(options.tests, ElementsAre(Collective::kAllReduce));
  EXPECT_EQ(options.sizes.min, 8u);
  EXPECT_EQ(options.sizes.max, 128u << 20);
  EXPECT_EQ(options.sizes.factor, 2u);
  EXPECT_EQ(options.ranks_per_process(), 8);
  EXPECT_EQ(options.iterations, 20);
  EXPECT_EQ(options.warmups, 5);
  EXPECT_EQ(options.checks, 0);
  EXPECT_THAT(options.ops, ElementsAre(ReduceOp::kMax));
  EXPECT_THAT(options.types, ElementsAre(DataType::kFloat16));
  EXPECT_TRUE(options.barrier);
  EXPECT_EQ(options.aggregated, 3);
}

TEST(Options, NcclTestsDefaultSizeIs32M) {
  const Options options = run_of({"reduce_perf"});
  EXPECT_THAT(*tools::sizes_of(options.sizes), ElementsAre(32u << 20));
}

TEST(Options, LongNamesWork) {
  const Options options = run_of({"tutti-bench", "broadcast", "--minbytes=1K", "--maxbytes", "2K",
                                  "--stepbytes", "512", "--datatype", "all", "--root", "all",
                                  "--ranks", "4", "--in-place", "--json", "x.json"});
  EXPECT_THAT(*tools::sizes_of(options.sizes), ElementsAre(1024, 1536, 2048));
  EXPECT_EQ(options.types.size(), static_cast<std::size_t>(kDataTypes));
  EXPECT_EQ(options.root, Options::kAllRoots);
  EXPECT_EQ(options.ranks, 4);
  EXPECT_FALSE(options.out_of_place);
  EXPECT_TRUE(options.in_place);
  EXPECT_EQ(options.json, "x.json");
}

TEST(Options, AllMeansEveryCollectiveAndOp) {
  const Options options = run_of({"tutti-bench", "all", "-o", "all", "-r", "-1"});
  EXPECT_EQ(options.tests.size(), 9u);
  EXPECT_EQ(options.ops.size(), static_cast<std::size_t>(kReduceOps));
  EXPECT_EQ(options.root, Options::kAllRoots);
}

TEST(Options, MistypedWordsGetASuggestion) {
  EXPECT_THAT(refusal({"tutti-bench", "all_redcue"}), HasSubstr("did you mean `all_reduce`"));
  EXPECT_THAT(refusal({"tutti-bench", "all", "--minbyts", "8"}),
              HasSubstr("did you mean '--minbytes'"));
  EXPECT_THAT(refusal({"all_reduce_perf", "-d", "flaot"}), HasSubstr("did you mean `float`"));
  EXPECT_THAT(refusal({"all_reduce_perf", "-o", "summ"}), HasSubstr("did you mean `sum`"));
}

TEST(Options, WrongValuesAreNamed) {
  EXPECT_THAT(refusal({"all_reduce_perf", "-b", "8Q"}), HasSubstr("8Q"));
  EXPECT_THAT(refusal({"all_reduce_perf", "-b", "64", "-e", "8"}), HasSubstr("64"));
  EXPECT_THAT(refusal({"all_reduce_perf", "-n", "0"}), HasSubstr("0"));
  EXPECT_THAT(refusal({"all_reduce_perf", "-r", "x"}), HasSubstr("`x`"));
  EXPECT_THAT(refusal({"all_reduce_perf", "--ranks", "3", "-g", "2"}), HasSubstr("--ranks 3"));
  EXPECT_THAT(refusal({"all_reduce_perf", "--ranks", "2", "-r", "2"}), HasSubstr("root 2"));
  EXPECT_THAT(refusal({"all_reduce_perf", "--gate", "5"}), HasSubstr("--compare"));
  EXPECT_THAT(refusal({"all_reduce_perf", "-f", "2", "-i", "8"}), HasSubstr("exclude"));
  EXPECT_THAT(refusal({"all_reduce_perf", "surplus"}), HasSubstr("surplus"));
  EXPECT_FALSE(parse({"tutti-bench"}));
  EXPECT_FALSE(parse({"all_reduce_perf", "--in-place", "--out-of-place"}));
}

TEST(Options, NcclTestsFlagsThatChangeNothingAreAccepted) {
  const std::pair<const char*, const char*> kCases[] = {{"-a", "2"},
                                                        {"-y", "1"},
                                                        {"-p", "1"},
                                                        {"-x", "2"},
                                                        {"-V", "32"},
                                                        {"-G", "0"},
                                                        {"-C", "0"},
                                                        {"-I", "0"},
                                                        {"-K", "0"},
                                                        {"-M", "0"},
                                                        {"-D", "0"},
                                                        {"-R", "0"},
                                                        {"-T", "0"},
                                                        {"--cta_policy", "0"},
                                                        {"--device_cta_count", "16"},
                                                        {"--memory", "0"},
                                                        {"--per_iter_timing", "0"},
                                                        {"--per_iter_skip", "0"},
                                                        {"--device_implementation", "0"}};
  for (const auto& [flag, value] : kCases) {
    const Options options = run_of({"all_reduce_perf", flag, value});
    EXPECT_EQ(options.memory, Memory::kPages) << flag;
    EXPECT_FALSE(options.register_buffers) << flag;
  }
}

TEST(Options, NcclTestsFlagsThatAskForMoreSayWhatIsNotSupported) {
  const std::tuple<const char*, const char*, const char*> kCases[] = {
      {"-G", "1", "-G/--cudagraph 1 is not supported: it asks for replays of a CUDA graph"},
      {"-C", "1", "--report_cputime 1 is not supported"},
      {"-I", "1", "--percentiles"},
      {"-K", "5", "--per_iter_skip 5 is not supported"},
      {"-M", "1", "report of a GPU's memory"},
      {"--memory", "1", "report of a GPU's memory"},
      {"-D", "3", "-D/--device_implementation 3 is not supported"},
      {"-R", "2", "symmetric windows"}};
  for (const auto& [flag, value, hint] : kCases) {
    EXPECT_THAT(refusal({"all_reduce_perf", flag, value}), HasSubstr(hint)) << flag;
  }
  EXPECT_THAT(refusal({"all_reduce_perf", "-x", "3"}), HasSubstr("--cta_policy"));
  EXPECT_THAT(refusal({"all_reduce_perf", "-K", "-1"}), HasSubstr("--per_iter_skip"));
}

TEST(Options, HelpAndVersionAreTexts) {
  EXPECT_THAT(parse({"all_reduce_perf", "--help"})->text, HasSubstr("--minbytes"));
  EXPECT_THAT(parse({"tutti-bench", "--version"})->text, testing::StartsWith("tutti 0."));
}

// -------------------------------------------------------------------------------- statistics

TEST(Stats, QuantilesInterpolate) {
  const double values[] = {1, 2, 3, 4};
  EXPECT_DOUBLE_EQ(quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 4);
  EXPECT_DOUBLE_EQ(quantile({}, 0.5), 0);
}

TEST(Stats, TheMedianGrowsCertainWithMoreSamples) {
  std::vector<double> samples;
  double last = std::numeric_limits<double>::infinity();
  for (const int n : {4, 16, 64, 256, 1024}) {
    samples.clear();
    for (int i = 0; i < n; ++i) samples.push_back(100 + 20.0 * i / n);
    const double uncertainty = median_uncertainty(samples);
    EXPECT_TRUE(uncertainty < last || std::isinf(last)) << n;
    last = uncertainty;
  }
  EXPECT_LT(last, 0.01);
  EXPECT_TRUE(std::isinf(median_uncertainty(std::vector<double>(7, 1.0))));
  EXPECT_EQ(median_uncertainty(std::vector<double>(100, 3.0)), 0);
}

// ----------------------------------------------------------------------------------- reports

Report small_report() {
  Report report;
  report.options.tests = {Collective::kAllReduce};
  report.options.program = "all_reduce_perf";
  report.job = {2, 1, {"shm"}, "0.1.0", 22809, 22809, {{0, 123, "node", "cpu"}}};
  Row row;
  row.shape = {Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 2, 0, 268435456};
  row.algorithm = "two_shot";
  row.out_of_place = Timing{4011.9, 4000, 4100, 4500, 20, 0, 62.5, std::nullopt};
  row.in_place = Timing{4008.4, 3999, 4100, 4400, 20, 3, std::nullopt, std::nullopt};
  report.rows = {row};
  return report;
}

TEST(Table, RowsHaveNcclTestsColumnsFirst) {
  const Report report = small_report();
  const std::string row = table_row(report.options, report.rows[0]);
  EXPECT_THAT(row,
              testing::StartsWith("  1073741824     268435456     float     sum      -1  4011.90"
                                  "  267.64  267.64       0  4008.40  267.87  267.87       3"));
  EXPECT_THAT(row, testing::EndsWith("  two_shot               4000.00   4500.00    62.50\n"));
}

TEST(Table, TheLimitIsBlankWhereThereIsNoneAndNoColumnWhenTurnedOff) {
  Report report = small_report();
  report.rows[0].out_of_place->limit_percent.reset();
  EXPECT_THAT(table_row(report.options, report.rows[0]), testing::EndsWith("4500.00         \n"));
  EXPECT_THAT(column_titles(report.options, Collective::kAllReduce), HasSubstr("%limit"));
  report.options.show_limit = false;
  EXPECT_THAT(table_row(report.options, report.rows[0]), testing::EndsWith("4500.00\n"));
  EXPECT_THAT(column_titles(report.options, Collective::kAllReduce), Not(HasSubstr("%limit")));
}

TEST(Table, TitlesStandAboveTheirColumns) {
  const Report report = small_report();
  const std::string titles = column_titles(report.options, Collective::kAllReduce);
  EXPECT_THAT(titles, HasSubstr("out-of-place"));
  const std::string names = titles.substr(titles.find('\n') + 1, 120);
  const std::string row = table_row(report.options, report.rows[0]);
  for (const std::string title :
       {"size", "count", "type", "redop", "root", "time", "algbw", "#wrong"}) {
    const auto end = names.find(title) + title.size();
    EXPECT_NE(row[end - 1], ' ') << title;
    EXPECT_EQ(row[end], ' ') << title;
  }
}

TEST(Table, WideNumbersLoseDecimalsBeforeColumns) {
  Report report = small_report();
  report.rows[0].out_of_place->mean_us = 1234567.8;
  EXPECT_THAT(table_row(report.options, report.rows[0]), HasSubstr("  1234568    0.87"));
}

TEST(Table, AMissingFormIsNotAvailable) {
  Report report = small_report();
  report.rows[0].in_place.reset();
  EXPECT_THAT(table_row(report.options, report.rows[0]),
              HasSubstr("      N/A     N/A     N/A     N/A"));
}

TEST(Table, FootHasTheLinesThatScriptsLookFor) {
  Report report = small_report();
  EXPECT_THAT(table_foot(report), HasSubstr("# Out of bounds values : 3 FAILED\n"));
  report.rows[0].in_place->wrong = 0;
  EXPECT_THAT(table_foot(report), HasSubstr("# Out of bounds values : 0 OK\n"));
  EXPECT_THAT(table_foot(report), HasSubstr("# Avg bus bandwidth    : 267."));
}

TEST(Json, HasTheDocumentedShape) {
  const auto json = to_json(small_report());
  EXPECT_EQ(json["version"], 3);
  EXPECT_EQ(json["tutti_format"], 1);
  EXPECT_EQ(json["collective"], "all_reduce");
  EXPECT_EQ(json["ranks"], 2);
  EXPECT_EQ(json["transport"], nlohmann::json::array({"shm"}));
  EXPECT_EQ(json["config"]["check"], true);
  const auto& row = json["results"][0];
  EXPECT_EQ(row["size"], 1073741824);
  EXPECT_EQ(row["root"], -1);
  EXPECT_EQ(row["redop"], "sum");
  EXPECT_EQ(row["algorithm"], "two_shot");
  EXPECT_EQ(row["out_of_place"]["nwrong"], 0);
  EXPECT_EQ(row["in_place"]["nwrong"], 3);
  EXPECT_DOUBLE_EQ(row["out_of_place"]["time"], 4011.9);
  EXPECT_NEAR(row["out_of_place"]["bus_bw"].get<double>(), 267.64, 0.01);
  EXPECT_EQ(row["out_of_place"]["iterations"], 20);
  EXPECT_DOUBLE_EQ(row["out_of_place"]["limit_percent"], 62.5);
  EXPECT_TRUE(row["in_place"]["limit_percent"].is_null());
  EXPECT_EQ(json["out_of_bounds"]["count"], 3);
  EXPECT_EQ(json["out_of_bounds"]["okay"], false);
  EXPECT_TRUE(json["average_bus_bandwidth"].is_number());
  EXPECT_FALSE(json.contains("env"));
}

TEST(Json, SaysWhatTheLimitIsOrWhyThereIsNone) {
  Report report = small_report();
  report.no_limit = "two hosts";
  EXPECT_TRUE(to_json(report)["limit"]["copy_bandwidth"].is_null());
  EXPECT_EQ(to_json(report)["limit"]["reason"], "two hosts");
  report.limit = CopyBandwidth{{{4096, 12.5}}};
  EXPECT_EQ(to_json(report)["limit"]["copy_bandwidth"][0]["bytes"], 4096);
  EXPECT_EQ(to_json(report)["limit"]["copy_bandwidth"][0]["gb_per_s"], 12.5);
}

TEST(Json, UncheckedAndMissingFormsAreNull) {
  Report report = small_report();
  report.rows[0].out_of_place->wrong.reset();
  report.rows[0].in_place.reset();
  const auto json = to_json(report);
  EXPECT_TRUE(json["results"][0]["out_of_place"]["nwrong"].is_null());
  EXPECT_TRUE(json["results"][0]["in_place"].is_null());
}

TEST(Compare, PairsRowsAndAppliesTheGate) {
  Report report = small_report();
  const auto earlier = to_json(report);
  report.rows[0].out_of_place->p50_us = 4400;  // 10 % slower
  const auto changes = compare(earlier, report);
  ASSERT_TRUE(changes) << changes.error().what;
  ASSERT_EQ(changes->size(), 2u);
  EXPECT_NEAR((*changes)[0].percent(), 10, 1e-9);
  EXPECT_FALSE(passes_gate(*changes, 5));
  EXPECT_TRUE(passes_gate(*changes, 15));
  EXPECT_TRUE(passes_gate(*changes, -1));
  EXPECT_THAT(comparison_text(*changes, 5), HasSubstr("1 of 2 FAILED"));
}

TEST(Compare, RefusesForeignJsonAndRunsWithoutCommonRows) {
  const Report report = small_report();
  EXPECT_FALSE(compare(nlohmann::json::parse("[1,2]"), report));
  EXPECT_FALSE(compare(nlohmann::json::parse(R"({"results": 3, "collective": "x"})"), report));
  Report other = small_report();
  other.rows[0].shape.count = 5;
  EXPECT_FALSE(compare(to_json(other), report));
}

}  // namespace
}  // namespace tutti::bench
