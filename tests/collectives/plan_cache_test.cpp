// What a rank plans, in a team that was told where its members are and has met none of them.
#include "src/comm/plan_cache.hpp"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "algorithms/algorithms.hpp"
#include "src/base/log.hpp"
#include "src/base/shared_heap.hpp"
#include "src/exec/local_board.hpp"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Rank 0 of `ranks`, as many on each of `hosts`.
class Planner {
 public:
  Planner(std::int32_t ranks, std::int32_t hosts, const exec::TeamOptions& options = {},
          const std::string& algorithms = "", const MeasuredTable& known = {}) {
    auto heap = SharedHeap::create();
    EXPECT_TRUE(heap);
    staging_ = std::make_unique<exec::StagingPool>(*std::move(heap));
    auto team = exec::Team::create(0, ranks, *staging_, board_, options);
    EXPECT_TRUE(team);
    team_ = *std::move(team);
    lower::Placement placement;
    for (Rank rank = 0; rank < ranks; ++rank) placement.host.push_back(rank * hosts / ranks);
    team_->set_placement(placement);
    auto tuner = Tuner::create(algorithms_, {algorithms, false});
    EXPECT_TRUE(tuner);
    trials_ = std::make_unique<Trials>(*team_, true, Arrangement{ranks, hosts, ranks / hosts},
                                       known, store_);
    plans_ = std::make_unique<PlanCache>(*team_, *trials_, *std::move(tuner), library_);
  }
  PlanCache& plans() { return *plans_; }
  Trials& trials() { return *trials_; }

 private:
  const std::vector<ir::Algorithm> algorithms_{algorithms::all().begin(), algorithms::all().end()};
  exec::LocalBoard board_;
  std::unique_ptr<exec::StagingPool> staging_;
  std::unique_ptr<exec::Team> team_;
  MeasuredStore store_{"", ""};
  ProgramLibrary library_;
  std::unique_ptr<Trials> trials_;
  std::unique_ptr<PlanCache> plans_;
};

Call call_of(Collective collective, std::size_t count, DataType type) {
  Call call;
  call.collective = collective;
  call.count = count;
  call.type = type;
  return call;
}

// As with 258 ranks and the least staging that TUTTI_STAGING_BYTES allows, in a third of the time:
// what they try has room, and a ring that tells them what it took would have none.
TEST(PlanCache, HasRoomForTheTimesOfTrialsWhereverThereIsRoomForTrials) {
  exec::TeamOptions options;
  options.staging_bytes = 16 << 10;
  Planner planner(90, 2, options);
  const Call call = call_of(Collective::kBroadcast, 1000, DataType::kFloat32);
  while (!planner.trials().due()) {
    const auto bound = planner.plans().get(call, false);
    ASSERT_TRUE(bound) << bound.error().what;
    ASSERT_TRUE((*bound)->on_trial);
    planner.trials().begin();
    planner.trials().end(true);
  }
  const auto exchange = planner.plans().exchange(planner.trials().gather());
  EXPECT_TRUE(exchange) << exchange.error().what;
}

TEST(PlanCache, TakesTheNextBestWhereTheBestHasNoRoomForItsSlots) {
  exec::TeamOptions options;
  options.staging_bytes = 16 << 10;
  Planner planner(90, 2, options);
  const Call call = call_of(Collective::kBroadcast, 1 << 20, DataType::kFloat32);
  EXPECT_EQ((*planner.plans().algorithm_for(call))->name, "circulant_blocks");
  const auto bound = planner.plans().get(call, false);
  EXPECT_TRUE(bound) << bound.error().what;
}

TEST(PlanCache, ChoosesByItselfWhereWhatTheCallerAsksForHasNoRoomForItsSlots) {
  exec::TeamOptions options;
  options.staging_bytes = 16 << 10;
  Planner planner(90, 2, options);
  const Call call = call_of(Collective::kBroadcast, 1 << 20, DataType::kFloat32);
  const auto chosen = [&] { return (*planner.plans().algorithm_for(call))->name; };
  ASSERT_TRUE(planner.plans().ask_for(Collective::kBroadcast, "direct", {}));
  EXPECT_EQ(chosen(), "direct");
  ASSERT_TRUE(planner.plans().ask_for(Collective::kBroadcast, "hierarchical_tree", {}));
  EXPECT_EQ(chosen(), "circulant_blocks");
  const auto bound = planner.plans().get(call, false);
  EXPECT_TRUE(bound) << bound.error().what;
}

TEST(PlanCache, FailsWhereWhatNothingElseCanStandInForHasNoRoomForItsSlots) {
  exec::TeamOptions options;
  options.staging_bytes = 4 << 10;
  Planner planner(90, 2, options);
  const Call call = call_of(Collective::kAllReduce, 1 << 20, DataType::kFloat32);
  ASSERT_TRUE(planner.plans().ask_for(Collective::kAllReduce, "fixed_tree", {}));
  const auto bound = planner.plans().get(call, false);
  ASSERT_FALSE(bound);
  EXPECT_THAT(bound.error().what, HasSubstr("fixed_tree over 90 ranks needs"));
  EXPECT_THAT(bound.error().what, HasSubstr("TUTTI_STAGING"));
  EXPECT_EQ((*planner.plans().algorithm_for(call))->name, "fixed_tree");
}

// Of a program's call like it, other ranks know nothing before the trials' exchange.
TEST(PlanCache, KeepsTheExchangeOfTrialsApartFromCallsLikeIt) {
  Planner planner(4, 4);
  const Call gather = call_of(Collective::kAllGather, sizeof(TrialTimes) / sizeof(std::uint64_t),
                              DataType::kUint64);
  const std::string chosen((*planner.plans().algorithm_for(gather))->name);
  ASSERT_NE(chosen, "direct") << "choose another number of ranks";
  const auto exchange = planner.plans().exchange(gather);
  ASSERT_TRUE(exchange);
  EXPECT_EQ((*exchange)->plan->lowered().algorithm, "direct");
  const auto asked = planner.plans().get(gather, false);
  ASSERT_TRUE(asked);
  EXPECT_EQ((*asked)->plan->lowered().algorithm, chosen);
  EXPECT_EQ((*planner.plans().exchange(gather))->plan->lowered().algorithm, "direct");
}

/// What the log says of the plans that are made while it lives.
class Reasons {
 public:
  Reasons() : path_(std::filesystem::temp_directory_path() / "tutti_reasons_XXXXXX") {
    const int file = ::mkstemp(path_.data());
    EXPECT_GE(file, 0) << path_;
    ::close(file);
    set({path_, "INFO", "TUNING"});
  }
  ~Reasons() {
    set(before_);
    std::filesystem::remove(path_);
  }
  [[nodiscard]] std::vector<std::string> all() const {
    std::vector<std::string> lines;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

 private:
  using Values = std::array<std::optional<std::string>, 3>;
  static constexpr std::array kNames = {"TUTTI_DEBUG_FILE", "TUTTI_DEBUG", "TUTTI_DEBUG_SUBSYS"};

  static Values get() {
    Values values;
    for (std::size_t i = 0; i < kNames.size(); ++i)
      if (const char* const value = std::getenv(kNames[i])) values[i] = value;
    return values;
  }
  static void set(const Values& values) {
    for (std::size_t i = 0; i < kNames.size(); ++i)
      values[i] ? ::setenv(kNames[i], values[i]->c_str(), 1) : ::unsetenv(kNames[i]);
    reset_log();
  }
  const Values before_ = get();
  std::string path_;
};

// One class of calls, of which those on integers were tried.
TEST(PlanCache, CallsMeasuredWhatAVerdictChoseAndNothingElse) {
  MeasuredTable known;
  known.add(verdict_on({Collective::kAllReduce, 14}, {4, 4, 1}, {"ring"}));
  known.add(verdict_on({Collective::kAllGather, 14}, {4, 4, 1}, {"direct"}));
  Planner planner(4, 4, {}, "allgather:^direct", known);
  const Reasons reasons;
  for (const Call& call : {call_of(Collective::kAllReduce, 4000, DataType::kInt32),
                           call_of(Collective::kAllReduce, 4000, DataType::kFloat32),
                           call_of(Collective::kAllGather, 4000, DataType::kInt32)})
    ASSERT_TRUE(planner.plans().get(call, false));
  EXPECT_THAT(reasons.all(),
              ElementsAre(HasSubstr("int32: ring (measured)"),
                          HasSubstr("float: circulant (16000 bytes over 4 ranks of several hosts)"),
                          HasSubstr("int32: circulant (64000 bytes")));
}

}  // namespace
}  // namespace tutti
