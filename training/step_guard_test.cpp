#include "training/step_guard.hpp"

#include <array>
#include <functional>

#include <gmock/gmock.h>

#include "training/test_model.hpp"

namespace tutti::training {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::shared_ptr<const FlatLayout> layout() {
  auto made = FlatLayout::create(model(), {{"a", {0}}, {"b", {1}}, {"c", {2}}}, 1);
  return std::make_shared<const FlatLayout>(*std::move(made));
}

/// A communicator to talk over, one for data, and what a rank does with them.
std::vector<Status> outcomes(int ranks,
                             const std::function<Status(StepGuard&, Comm& data, Rank)>& what) {
  std::vector<Status> all(static_cast<std::size_t>(ranks), ok_status());
  run_ranks(ranks, [&](Comm& comm) {
    auto control = comm.split(0, comm.rank());
    ASSERT_TRUE(control) << control.error().what;
    StepGuard guard(layout(), *std::move(control), std::chrono::milliseconds(50));
    guard.revokes({&comm});
    all[static_cast<std::size_t>(comm.rank())] = what(guard, comm, comm.rank());
  });
  return all;
}

Status as_status(const Result<float>& met) { return met ? ok_status() : Status(met.error()); }

Status reduce(StepGuard& guard, Comm& data, GroupId group) {
  auto stream = Stream::create();
  if (!stream) return stream.error();
  guard.note(Operation::kReduce, group);
  std::array<float, 4> values = {};
  const Status sent = guard.check(data.all_reduce<float>(values, values, ReduceOp::kSum, &*stream));
  return sent ? guard.wait(*stream) : sent;
}

TEST(StepGuard, TellsTheLargestValueOfAllRanks) {
  run_ranks(3, [](Comm& comm) {
    auto control = comm.split(0, comm.rank());
    ASSERT_TRUE(control);
    StepGuard guard(layout(), *std::move(control));
    for (int step = 0; step < 3; ++step) {
      guard.note(Operation::kReduce, 1);
      const auto met = guard.meet(static_cast<float>(comm.rank() * 10 + step));
      ASSERT_TRUE(met) << met.error().what;
      EXPECT_EQ(*met, static_cast<float>(20 + step));
    }
  });
}

TEST(StepGuard, NamesTheRankThatDidSomethingElseOfTheSameSize) {
  const auto all = outcomes(3, [](StepGuard& guard, Comm& data, Rank rank) {
    if (Status done = reduce(guard, data, 0); !done) return done;
    if (Status done = reduce(guard, data, rank == 1 ? 2U : 1U); !done) return done;
    return as_status(guard.meet(0));
  });
  for (const Status& each : all) {
    ASSERT_FALSE(each);
    EXPECT_EQ(each.error().peer, 1);
    EXPECT_THAT(each.error().what,
                AllOf(HasSubstr("rank 1 differs from rank 0 in step 1, operation 2"),
                      HasSubstr("it reduced 'c' (parameter 'out')"),
                      HasSubstr("rank 0 reduced 'b' (parameter 'bias')")));
  }
}

TEST(StepGuard, NamesTheRankForWhichOthersWait) {
  const auto all = outcomes(3, [](StepGuard& guard, Comm& data, Rank rank) {
    if (rank != 2)
      if (Status done = reduce(guard, data, 0); !done) return done;
    return as_status(guard.meet(0));
  });
  for (const Status& each : all) {
    ASSERT_FALSE(each);
    EXPECT_EQ(each.error().peer, 2);
    EXPECT_THAT(each.error().what, HasSubstr("it came to the end of its step"));
  }
}

TEST(StepGuard, WaitsForRanksThatTakeLong) {
  const auto all = outcomes(2, [](StepGuard& guard, Comm& data, Rank rank) {
    for (int step = 0; step < 2; ++step) {
      // Several times as long as the other rank has patience.
      if (rank == step) std::this_thread::sleep_for(std::chrono::milliseconds(300));
      if (Status done = reduce(guard, data, 0); !done) return done;
      if (Status done = as_status(guard.meet(0)); !done) return done;
    }
    return ok_status();
  });
  for (const Status& each : all) EXPECT_TRUE(each) << each.error().what;
}

TEST(StepGuard, TellsOthersWhyARankGaveUp) {
  const auto all = outcomes(3, [](StepGuard& guard, Comm& data, Rank rank) -> Status {
    if (rank == 1) return guard.give_up({Code::kInvalidUsage, "lost its notes"});
    if (Status done = reduce(guard, data, 0); !done) return done;
    return as_status(guard.meet(0));
  });
  EXPECT_EQ(all[1].error().what, "lost its notes");
  for (const int rank : {0, 2}) {
    const Status& each = all[static_cast<std::size_t>(rank)];
    ASSERT_FALSE(each);
    EXPECT_EQ(each.error().peer, 1);
    EXPECT_EQ(each.error().what, "rank 1: lost its notes");
  }
}

}  // namespace
}  // namespace tutti::training
