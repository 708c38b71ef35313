// What a rank plans, in a team that was told where its members are and has met none of them.
#include "src/comm/plan_cache.hpp"

#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "src/base/shared_heap.hpp"
#include "src/exec/local_board.hpp"

namespace tutti {
namespace {

/// Rank 0 of `ranks`, as many on each of `hosts`.
class Planner {
 public:
  Planner(std::int32_t ranks, std::int32_t hosts, const exec::TeamOptions& options = {},
          const std::string& algorithms = "", const std::vector<Verdict>& known = {}) {
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
    trials_ = std::make_unique<Trials>(*team_, true, known, store_);
    plans_ = std::make_unique<PlanCache>(*team_, *trials_, *std::move(tuner), library_);
  }
  PlanCache& plans() { return *plans_; }
  Trials& trials() { return *trials_; }

 private:
  const std::vector<ir::Algorithm> algorithms_{algorithms::all().begin(), algorithms::all().end()};
  exec::LocalBoard board_;
  std::unique_ptr<exec::StagingPool> staging_;
  std::unique_ptr<exec::Team> team_;
  TuningStore store_{"", "m"};
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

}  // namespace
}  // namespace tutti
