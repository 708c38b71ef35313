#include "tests/mutation/execute_schedule.hpp"

#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "algorithms/forest.hpp"
#include "src/ir/sample_schedules.hpp"
#include "src/topo/forest/sample_networks.hpp"

namespace tutti::ir {
namespace {

using samples::direct;
using samples::ring_all_reduce;
using testing::HasSubstr;

constexpr Request kAllReduce{Collective::kAllReduce, 3, 0, false};

std::vector<Step>& steps(Schedule& schedule, Rank rank) {
  return schedule.programs[static_cast<std::size_t>(rank)].steps;
}

/// The first error over many orderings; "" when there is none.
std::string harm(const Schedule& schedule) {
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    for (int ordering = 0; ordering < kOrderings; ++ordering)
      if (const Status status = execute(schedule, {static_cast<Ordering>(ordering), seed, 1});
          !status)
        return status.error().what;
  return "";
}

TEST(ScheduleExecution, ExecutesADirectScheduleOfEveryCollectiveExactly) {
  for (const Collective collective : samples::kGlobalCollectives) {
    for (const std::int32_t ranks : {1, 2, 5}) {
      for (const bool in_place : {false, true}) {
        if (in_place && collective == Collective::kAllToAll) continue;
        for (const bool formatted : {false, true}) {
          const Request request{collective, ranks, rooted(collective) ? ranks - 1 : 0, in_place};
          EXPECT_EQ(harm(direct(request, 3, formatted)), "")
              << name_of(collective) << " n=" << ranks;
        }
      }
    }
  }
}

TEST(ScheduleExecution, ExecutesWhatTheNetworkDoesExactly) {
  for (const bool in_place : {false, true}) {
    for (const Collective collective : samples::kGroupCollectives)
      for (const std::int32_t ranks : {2, 5}) {
        const Request request{collective, ranks, rooted(collective) ? ranks - 1 : 0, in_place};
        EXPECT_EQ(harm(samples::by_the_network(request, 3)), "")
            << name_of(collective) << " n=" << ranks;
      }
    EXPECT_EQ(harm(samples::on_two_trees(3, in_place)), "");
    EXPECT_EQ(harm(samples::in_two_levels(6, in_place)), "");
  }
}

TEST(ScheduleExecution, FindsThatAMemberMissesAnOperation) {
  Schedule schedule = samples::by_the_network({Collective::kReduce, 3, 0, false}, 1);
  steps(schedule, 2).clear();
  EXPECT_THAT(harm(schedule), HasSubstr("stuck"));
}

TEST(ScheduleExecution, FindsThatMembersTakeGroupsInDifferentOrders) {
  Schedule schedule = samples::on_two_trees(3, false);
  std::swap(steps(schedule, 1)[0], steps(schedule, 1)[1]);
  EXPECT_THAT(harm(schedule), HasSubstr("stuck"));
}

TEST(ScheduleExecution, ExecutesTheRingExactly) {
  for (const bool in_place : {false, true}) EXPECT_EQ(harm(ring_all_reduce(5, in_place)), "");
}

TEST(ScheduleExecution, FindsARaceOnceADependencyIsDropped) {
  Schedule schedule = direct(kAllReduce, 1);
  steps(schedule, 0)[4].deps = {2};  // adds what has not arrived
  EXPECT_THAT(harm(schedule), HasSubstr("rank 0 has a wrong element"));
  schedule = direct(kAllReduce, 1);
  steps(schedule, 0)[6].deps = {5};  // two additions at once lose one
  EXPECT_THAT(harm(schedule), HasSubstr("rank 0 has a wrong element"));
}

TEST(ScheduleExecution, FindsThatASendReadsLate) {
  Schedule schedule = direct({Collective::kAllReduce, 3, 0, true}, 1);
  ASSERT_EQ(steps(schedule, 0)[3].deps, (std::vector<StepId>{0, 1, 2}));
  steps(schedule, 0)[3].deps = {0, 2};
  EXPECT_THAT(harm(schedule), HasSubstr("rank 2 has a wrong element"));
}

TEST(ScheduleExecution, FindsAMissingContribution) {
  Schedule schedule = direct(kAllReduce, 1);
  steps(schedule, 2).pop_back();
  EXPECT_THAT(harm(schedule), HasSubstr("rank 2 has a wrong element"));
}

TEST(ScheduleExecution, FindsDeadlock) {
  Schedule schedule = direct(kAllReduce, 1);
  for (Rank rank = 0; rank < 3; ++rank) steps(schedule, rank)[0].deps.clear();
  std::swap(steps(schedule, 0)[0], steps(schedule, 0)[3]);
  std::swap(steps(schedule, 1)[0], steps(schedule, 1)[3]);
  EXPECT_THAT(harm(schedule), HasSubstr("stuck"));
}

TEST(ScheduleExecution, FindsMessagesThatNobodyReceives) {
  Schedule schedule = direct({Collective::kAllGather, 2, 0, false}, 1);
  steps(schedule, 0).push_back({Verb::kSend, in(0), {}, 1, 0, {}});
  EXPECT_THAT(harm(schedule), HasSubstr("1 messages from rank 0 to rank 1 are left over"));
}

TEST(ScheduleExecution, FindsAnInputThatChanged) {
  Schedule schedule = direct({Collective::kAllGather, 2, 0, false}, 1);
  const auto last = static_cast<StepId>(steps(schedule, 0).size() - 1);
  steps(schedule, 0).push_back({Verb::kCopy, out(1), in(0), kNoRank, 0, {0, last}});
  EXPECT_THAT(harm(schedule), HasSubstr("rank 0 changed element 0 of its input"));
}

TEST(ScheduleExecution, FindsLengthsThatDiffer) {
  Schedule schedule = direct({Collective::kAllGather, 2, 0, false}, 3);
  steps(schedule, 0)[0].src.count = 2;
  EXPECT_THAT(harm(schedule), HasSubstr("elements where"));
  schedule = direct({Collective::kAllGather, 2, 0, false}, 3);
  steps(schedule, 0)[1].src.count = 2;
  EXPECT_THAT(harm(schedule), HasSubstr("elements into"));
}

TEST(ScheduleExecution, FindsOperandsOutsideMemory) {
  Schedule schedule = direct({Collective::kAllGather, 2, 0, false}, 3);
  steps(schedule, 0)[0].src.first = 1;
  EXPECT_THAT(harm(schedule), HasSubstr("rank 0 step 0 leaves its memory"));
}

TEST(ScheduleExecution, FindsFormattedValuesTakenForPlain) {
  Schedule schedule = direct(kAllReduce, 1, true);
  ASSERT_EQ(steps(schedule, 0)[6].verb, Verb::kReduce);
  steps(schedule, 0)[6].src.format = kPlain;
  EXPECT_THAT(harm(schedule), HasSubstr("rank 0 has a wrong element"));
}

TEST(ForestSchedule, YieldsTheRightNumbersInAnyOrderOfExecution) {
  const auto forest = topo::forest::grow(topo::forest::degraded_ring(5, 0.5), {});
  ASSERT_TRUE(forest) << forest.error().what;
  for (const Collective collective :
       {Collective::kAllGather, Collective::kReduceScatter, Collective::kAllReduce}) {
    const auto schedule = algorithms::forest_schedule({collective, 5, 0, false}, *forest);
    ASSERT_TRUE(schedule) << schedule.error().what;
    for (int ordering = 0; ordering < kOrderings; ++ordering) {
      const auto done =
          execute(schedule->schedule,
                  {.ordering = static_cast<Ordering>(ordering), .seed = 7, .fifo_depth = 1});
      EXPECT_TRUE(done) << name_of(collective) << ": " << done.error().what;
    }
  }
}

}  // namespace
}  // namespace tutti::ir
