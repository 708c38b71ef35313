// Communicators that run what a measured table or the model says, or what their caller asks for.
#include <array>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <unistd.h>

#include "tests/collectives/cases.hpp"
#include "tests/collectives/ranks.hpp"

namespace tutti {
namespace {

using testing::call_of;
using testing::cases_of;
using ::testing::HasSubstr;
using testing::make_test_runtimes;
using testing::Placement;
using testing::run_cases;
using testing::run_ranks;
using testing::Runtimes;

MeasuredRange range(Collective collective, const Arrangement& arrangement, std::uint64_t to,
                    const std::string& algorithm, bool kernel_reads = false) {
  return {collective, arrangement, 0, to, {algorithm, kernel_reads}, 1, 1, 2, 1};
}

/// A file of its own, which goes with it.
class File {
 public:
  explicit File(const std::string& text) { std::ofstream(path_) << text; }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { std::filesystem::remove(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  const std::string path_ = ::testing::TempDir() + "table-" + std::to_string(::getpid()) + ".json";
};

/// Where rank 0 alone has a table with these ranges.
Runtimes runtimes_with(const std::vector<MeasuredRange>& ranges, Placement placement, int n,
                       const testing::SettingValues& values = {}) {
  Runtimes runtimes = make_test_runtimes(placement, n, values);
  MeasuredTable table;
  for (const MeasuredRange& each : ranges) table.add(each);
  const File file(table.text());
  runtimes[0]->table = std::make_unique<MeasuredStore>(file.path(), "TUTTI_TUNING_TABLE");
  EXPECT_EQ(runtimes[0]->table->table(), table);
  return runtimes;
}

/// What each rank says that an all_reduce of so many floats runs.
std::vector<std::string> chosen_by_ranks(const Runtimes& runtimes, std::size_t count) {
  std::vector<std::string> names(runtimes.size());
  run_ranks(runtimes, [&](Communicator& communicator) {
    std::vector<float> data(count);
    const auto name = communicator.algorithm_for(call_of(Collective::kAllReduce, data));
    ASSERT_TRUE(name) << name.error().what;
    names[static_cast<std::size_t>(communicator.rank())] = *name;
  });
  return names;
}

struct Ranks {
  Placement placement;
  Arrangement arrangement;
};
void PrintTo(const Ranks& ranks, std::ostream* out) {
  *out << ranks.arrangement.ranks << " " << testing::name_of(ranks.placement);
}

class Table : public ::testing::TestWithParam<Ranks> {
 protected:
  const Placement placement_ = GetParam().placement;
  const Arrangement arrangement_ = GetParam().arrangement;
  const int ranks_ = arrangement_.ranks;
};

TEST_P(Table, OfRankZeroDecidesOnAllRanks) {
  const auto all = [&](const std::string& name) {
    return std::vector<std::string>(static_cast<std::size_t>(ranks_), name);
  };
  const Runtimes runtimes =
      runtimes_with({range(Collective::kAllReduce, arrangement_, 4000, "double_binary_tree")},
                    placement_, ranks_);
  EXPECT_EQ(chosen_by_ranks(runtimes, 1000), all("double_binary_tree"));
  const Runtimes without = make_test_runtimes(placement_, ranks_);
  EXPECT_EQ(chosen_by_ranks(runtimes, 1001), chosen_by_ranks(without, 1001));
  EXPECT_NE(chosen_by_ranks(without, 1000), all("double_binary_tree"));
}

TEST_P(Table, LeavesResultsRight) {
  struct Names {
    Collective collective;
    const char *small, *large;
  };
  std::vector<MeasuredRange> ranges;
  for (const Names& names : {Names{Collective::kAllReduce, "ring", "two_shot"},
                             Names{Collective::kAllGather, "ring", "direct"},
                             Names{Collective::kReduceScatter, "circulant", "one_shot"},
                             Names{Collective::kBroadcast, "ring", "direct"},
                             Names{Collective::kAllToAll, "pairwise", "direct"}}) {
    MeasuredRange large = range(names.collective, arrangement_, 1 << 24, names.large, true);
    large.from_bytes = 60'000;
    ranges.push_back(range(names.collective, arrangement_, 59'999, names.small));
    ranges.push_back(large);
  }
  run_ranks(runtimes_with(ranges, placement_, ranks_), [&](Communicator& communicator) {
    run_cases(communicator, cases_of(ranks_, {1, 300, 40'001}, {DataType::kFloat32}));
  });
}

TEST_P(Table, IsIgnoredWhereResultsAreToBeDeterministic) {
  const std::vector<MeasuredRange> ranges = {
      range(Collective::kAllReduce, arrangement_, 1 << 20, "double_binary_tree")};
  const testing::SettingValues deterministic = {{"DETERMINISTIC", "1"}};
  const auto with = runtimes_with(ranges, placement_, ranks_, deterministic);
  EXPECT_EQ(chosen_by_ranks(with, 1000),
            chosen_by_ranks(make_test_runtimes(placement_, ranks_, deterministic), 1000));
}

TEST_P(Table, GivesWayToWhatTheCallerAsksFor) {
  const auto runtimes =
      runtimes_with({range(Collective::kAllReduce, arrangement_, 1 << 20, "double_binary_tree")},
                    placement_, ranks_);
  run_ranks(runtimes, [&](Communicator& communicator) {
    for (const char* const asked : {"ring", "two_shot", ""}) {
      ASSERT_TRUE(communicator.ask_for_algorithm(Collective::kAllReduce, asked, {}));
      std::vector<float> data(20'000, 1.0F);
      const Call call = call_of(Collective::kAllReduce, data);
      EXPECT_EQ(*communicator.algorithm_for(call), *asked != 0 ? asked : "double_binary_tree");
      ASSERT_TRUE(communicator.run(call));
      EXPECT_EQ(data, std::vector<float>(20'000, static_cast<float>(ranks_)));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Table,
                         ::testing::Values(Ranks{Placement::kThreads, {3, 1, 3}},
                                           Ranks{Placement::kProcesses, {4, 1, 4}},
                                           Ranks{Placement::kHosts, {3, 3, 1}},
                                           Ranks{Placement::kMixed, {4, 2, 2}}));

TEST(Table, ThatIsNoneIsAsIfThereWereNone) {
  const Runtimes runtimes = make_test_runtimes(Placement::kProcesses, 2);
  const File file("nonsense");
  runtimes[0]->table = std::make_unique<MeasuredStore>(file.path(), "TUTTI_TUNING_TABLE");
  EXPECT_EQ(chosen_by_ranks(runtimes, 10),
            chosen_by_ranks(make_test_runtimes(Placement::kProcesses, 2), 10));
}

/// Where rank 0 alone has a calibration, of hosts a second apart.
Runtimes far_apart(const testing::SettingValues& values = {}) {
  Runtimes runtimes = make_test_runtimes(Placement::kMixed, 4, values);
  Calibration calibration;
  calibration.between.latency_us = 1'000'000;
  const File file(calibration_json(calibration));
  runtimes[0]->calibration = std::make_unique<CalibrationStore>(file.path());
  EXPECT_EQ(runtimes[0]->calibration->calibration(), calibration);
  return runtimes;
}

TEST(Model, ProposesTheSameOnAllRanksAndResultsAreRight) {
  // For so much the rules take one round more between the hosts than is needed.
  const auto ruled = chosen_by_ranks(make_test_runtimes(Placement::kMixed, 4), 20'000);
  const auto proposed = chosen_by_ranks(far_apart(), 20'000);
  EXPECT_NE(proposed, ruled);
  EXPECT_EQ(proposed, std::vector<std::string>(4, proposed.front()));
  run_ranks(far_apart(), [&](Communicator& communicator) {
    run_cases(communicator, cases_of(4, {1, 300, 40'001}, {DataType::kFloat32}));
  });
}

TEST(Model, TellsWhatCallsTakeByTheCalibration) {
  const auto predicted_us = [](const Runtimes& runtimes) {
    double us_of_rank_0 = 0;
    run_ranks(runtimes, [&](Communicator& communicator) {
      std::vector<float> data(10);
      const std::array calls = {call_of(Collective::kAllReduce, data)};
      const auto us = communicator.predict(calls);
      ASSERT_TRUE(us) << us.error().what;
      if (communicator.rank() == 0) us_of_rank_0 = *us;
    });
    return us_of_rank_0;
  };
  EXPECT_GT(predicted_us(far_apart()), 1'000'000);
  EXPECT_LT(predicted_us(make_test_runtimes(Placement::kMixed, 4)), 10'000);
}

TEST(Model, IsIgnoredWhereResultsAreToBeDeterministic) {
  const testing::SettingValues deterministic = {{"DETERMINISTIC", "1"}};
  EXPECT_EQ(chosen_by_ranks(far_apart(deterministic), 20'000),
            chosen_by_ranks(make_test_runtimes(Placement::kMixed, 4, deterministic), 20'000));
}

TEST(Model, GivesWayToTheTable) {
  Runtimes runtimes = far_apart();
  MeasuredTable table;
  table.add(range(Collective::kAllReduce, {4, 2, 2}, 1 << 20, "double_binary_tree"));
  const File file(table.text());
  runtimes[0]->table = std::make_unique<MeasuredStore>(file.path(), "TUTTI_TUNING_TABLE");
  EXPECT_EQ(chosen_by_ranks(runtimes, 1000), std::vector<std::string>(4, "double_binary_tree"));
}

TEST(Model, HasTheCalibrationThatTheSettingNames) {
  const File file(calibration_json({.between_gbs = 50}));
  const auto runtimes =
      make_test_runtimes(Placement::kProcesses, 1, {{"CALIBRATION", file.path()}});
  EXPECT_EQ(runtimes[0]->calibration->calibration(), Calibration{.between_gbs = 50});
}

TEST(Model, TriesItsProposalBesideWhatGivesTheSameBits) {
  const Runtimes runtimes = far_apart();
  run_ranks(runtimes, [&](Communicator& communicator) {
    std::vector<std::int32_t> data(8'000, 1);
    for (int call = 0; call < 80; ++call) {  // a course, and what it found out
      std::ranges::fill(data, 1);
      ASSERT_TRUE(communicator.run(call_of(Collective::kAllReduce, data)));
      EXPECT_EQ(data, std::vector<std::int32_t>(8'000, 4));
    }
  });
  EXPECT_GT(runtimes[0]->tuning->table().ranges().size(), 0u) << "a verdict";
}

TEST(Model, WithoutACalibrationThatCanBeReadIsNone) {
  const Runtimes runtimes = make_test_runtimes(Placement::kMixed, 4);
  EXPECT_FALSE(CalibrationStore("/nonexistent/calibration.json").calibration());
  const File file("nonsense");
  runtimes[0]->calibration = std::make_unique<CalibrationStore>(file.path());
  EXPECT_FALSE(runtimes[0]->calibration->calibration());
  EXPECT_EQ(chosen_by_ranks(runtimes, 20'000),
            chosen_by_ranks(make_test_runtimes(Placement::kMixed, 4), 20'000));
}

TEST(Setting, ThatNamesWhatTheseRanksCannotRunIsAnErrorThatSaysWhy) {
  const auto runtimes =
      make_test_runtimes(Placement::kProcesses, 2, {{"ALGO", "all_gather:two_shot"}});
  auto group = in_process_group(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      const auto made = Communicator::create(runtimes[rank], std::move(group[rank]), {},
                                             Deadline::after(std::chrono::seconds(30)));
      ASSERT_FALSE(made);
      EXPECT_EQ(made.error().code, Code::kInvalidUsage);
      EXPECT_THAT(made.error().what, HasSubstr("all_gather by two_shot"));
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tutti
