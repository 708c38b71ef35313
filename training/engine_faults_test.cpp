// What ranks are told when one of them, or all, do something wrong with an engine.
#include <barrier>
#include <chrono>
#include <initializer_list>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "training/test_driver.hpp"

namespace tutti::training {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

/// What each rank ends with when it does this.
std::vector<Status> outcomes(int ranks, const PlanOptions& options,
                             const std::function<Status(Engine&, Driver&, int)>& what) {
  std::vector<Status> all(static_cast<std::size_t>(ranks), ok_status());
  run_ranks(ranks, [&](Comm& comm) {
    auto made = Engine::create(plan_for(ranks, options), AdamW{}, comm);
    ASSERT_TRUE(made) << made.error().what;
    Driver driver(**made, comm);
    Status& mine = all[static_cast<std::size_t>(comm.rank())];
    mine = driver.try_to_fill();  // may fail by what another rank does next
    if (mine) mine = what(**made, driver, comm.rank());
  });
  return all;
}

/// A forward pass over these units.
Status forward(Engine& engine, std::initializer_list<GroupId> units) {
  for (const GroupId unit : units) {
    if (const auto used = engine.use(unit, Pass::kForward); !used) return Status(used.error());
    if (Status done = engine.release(unit, Pass::kForward); !done) return done;
  }
  return ok_status();
}

Status as_status(const Result<StepOutcome>& outcome) {
  return outcome ? ok_status() : Status(outcome.error());
}

TEST(EngineFaults, RanksWithOtherModelsAreNamedWithTheParameter) {
  run_ranks(3, [](Comm& comm) {
    const ParameterTable same = table();
    std::vector<Parameter> parameters(same.all().begin(), same.all().end());
    if (comm.rank() == 2) parameters[2].shape = {20, 21};
    auto plan = Plan::create(*ParameterTable::create(parameters), units(), 3, {});
    ASSERT_TRUE(plan);
    const auto made = Engine::create(*plan, AdamW{}, comm);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().peer, 2);
    EXPECT_THAT(made.error().what, AllOf(HasSubstr("rank 2"), HasSubstr("hidden.weight")));
  });
}

TEST(EngineFaults, AnOptimizerThatThePlanDoesNotKnowIsRefusedOnAllRanks) {
  run_ranks(2, [](Comm& comm) {
    PlanOptions options;
    if (comm.rank() == 1) options.moments = 1;
    const auto made = Engine::create(plan_for(2, options), AdamW{}, comm);
    ASSERT_FALSE(made);
    EXPECT_THAT(made.error().what, HasSubstr("1 moments"));
  });
}

TEST(EngineFaults, RanksWithOtherOptionsAreNamed) {
  run_ranks(2, [](Comm& comm) {
    const auto made = Engine::create(
        plan_for(2, with(comm.rank() == 0 ? Strategy::kZero1 : Strategy::kZero2)), AdamW{}, comm);
    ASSERT_FALSE(made);
    EXPECT_THAT(made.error().what, HasSubstr("rank 1 trains with other options"));
  });
}

TEST(EngineFaults, AParameterWithoutGradientIsNamedOnAllRanks) {
  for (const Strategy strategy : {Strategy::kDdp, Strategy::kZero1, Strategy::kZero3}) {
    const auto all = outcomes(2, with(strategy), [](Engine& engine, Driver& driver, int rank) {
      if (rank == 0) return as_status(driver.step(0));
      if (Status done = driver.forward(); !done) return done;
      if (Status done = engine.begin_backward(true); !done) return done;
      for (GroupId unit = 3; unit-- > 0;) {
        if (const auto used = engine.use(unit, Pass::kBackward); !used) return Status(used.error());
        for (const ParameterId id : units()[unit].group.parameters)
          if (id != 3)
            if (Status given = driver.give_gradient(0, 0, id); !given) return given;
        if (Status done = engine.release(unit, Pass::kBackward); !done) return done;
      }
      return engine.end_backward();
    });
    ASSERT_FALSE(all[1]);
    EXPECT_EQ(all[1].error().code, Code::kInvalidUsage);
    EXPECT_THAT(all[1].error().what, HasSubstr("hidden.scale"));
    ASSERT_FALSE(all[0]);
    EXPECT_EQ(all[0].error().peer, 1) << all[0].error().what;
    EXPECT_THAT(all[0].error().what, AllOf(HasSubstr("rank 1"), HasSubstr("hidden.scale")));
  }
}

TEST(EngineFaults, ARankThatSkipsAUnitIsNamedWithAParameter) {
  const auto all =
      outcomes(3, with(Strategy::kZero3), [](Engine& engine, Driver& driver, int rank) {
        if (rank != 2) return as_status(driver.step(0));
        if (Status done = forward(engine, {0, 2}); !done) return done;
        if (Status done = driver.backward(0, 0); !done) return done;
        return as_status(engine.step({}));
      });
  for (const Status& each : all) {
    ASSERT_FALSE(each);
    EXPECT_THAT(each.error().what, AllOf(HasSubstr("rank 2"), HasSubstr("parameter '")));
  }
}

TEST(EngineFaults, RanksThatUseUnitsInAnotherOrderAreNamed) {
  PlanOptions options = with(Strategy::kZero3);
  options.prefetch_bytes = 0;  // what is gathered ahead would be the same
  const auto all = outcomes(3, options, [](Engine& engine, Driver& driver, int rank) {
    const Status passed = rank == 1 ? forward(engine, {0, 2, 1}) : forward(engine, {0, 1, 2});
    if (!passed) return passed;
    if (Status done = driver.backward(0, 0); !done) return done;
    return as_status(engine.step({}));
  });
  for (const Status& each : all) {
    ASSERT_FALSE(each);
    EXPECT_THAT(each.error().what, AllOf(HasSubstr("rank 1"), HasSubstr("parameter '")));
  }
}

TEST(EngineFaults, RanksWithOtherStepsAreNamed) {
  const auto rates =
      outcomes(3, with(Strategy::kDdp), [](Engine& engine, Driver& driver, int rank) {
        if (Status done = driver.backward(0, 0); !done) return done;
        return as_status(
            engine.step({.gradient_scale = 1, .learning_rate = rank == 2 ? 0.1 : 0.2}));
      });
  const auto passes = outcomes(3, with(Strategy::kZero1, 2), [](Engine&, Driver& driver, int rank) {
    if (rank != 2)
      if (Status done = driver.backward(0, 0); !done) return done;
    return as_status(driver.step(0));
  });
  for (const auto& all : {rates, passes})
    for (const Status& each : all) {
      ASSERT_FALSE(each);
      EXPECT_EQ(each.error().peer, 2) << each.error().what;
    }
}

TEST(EngineFaults, ARankThatLeavesInMidStepEndsItForAll) {
  const auto all = outcomes(2, with(Strategy::kDdp), [](Engine& engine, Driver& driver, int rank) {
    if (rank == 0) return as_status(driver.step(0));
    return engine.begin_backward(true);  // and no more
  });
  ASSERT_FALSE(all[0]);
  EXPECT_THAT(all[0].error().what, HasSubstr("rank 1"));
}

/// With the next unit gathered ahead, of which nobody has a use any more.
TEST(EngineFaults, ARankThatLeavesBetweenPassesIsNoFault) {
  const auto all = outcomes(2, with(Strategy::kZero3), [](Engine& engine, Driver&, int rank) {
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the other leaves
    return forward(engine, {0});
  });
  for (const Status& status : all) EXPECT_TRUE(status) << status.error().what;
}

TEST(EngineFaults, CallsOutOfTurnAreRefusedAndEndTraining) {
  const auto refused = [](const std::function<Status(Engine&, Driver&)>& what) {
    const auto all = outcomes(1, with(Strategy::kDdp), [&](Engine& engine, Driver& driver, int) {
      const Status first = what(engine, driver);
      EXPECT_FALSE(first);
      EXPECT_FALSE(engine.begin_backward(true));
      return first;
    });
    return all[0] ? "" : all[0].error().what;
  };
  EXPECT_THAT(refused([](Engine& engine, Driver&) { return engine.end_backward(); }),
              HasSubstr("without begin_backward"));
  EXPECT_THAT(refused([](Engine& engine, Driver&) { return as_status(engine.step({})); }),
              HasSubstr("not complete"));
  EXPECT_THAT(refused([](Engine& engine, Driver& driver) {
                (void)engine.begin_backward(true);
                (void)driver.give_gradient(0, 0, 1);
                return engine.ready(1);
              }),
              HasSubstr("second time"));
  EXPECT_THAT(refused([](Engine& engine, Driver&) {
                (void)engine.begin_backward(true);
                return engine.ready(1);
              }),
              HasSubstr("never written"));
  EXPECT_THAT(refused([](Engine& engine, Driver& driver) {
                (void)driver.backward(0, 0);
                return as_status(engine.step({-1}));
              }),
              HasSubstr("above 0"));
}

TEST(EngineFaults, UnitsBeyondTheWindowsAreRefused) {
  PlanOptions options = with(Strategy::kZero3);
  options.prefetch_bytes = 0;
  const auto all = outcomes(2, options, [](Engine& engine, Driver&, int) {
    const auto first = engine.use(0, Pass::kForward);
    if (!first) return Status(first.error());  // the other rank was there before
    const auto second = engine.use(1, Pass::kForward);
    return second ? ok_status() : Status(second.error());
  });
  for (const Status& each : all) {
    ASSERT_FALSE(each);
    EXPECT_THAT(each.error().what, HasSubstr("'hidden' has no window"));
  }
}

TEST(EngineFaults, TellsARankInACallOfItsOwnNoLongerThanItHasPatience) {
  // Rank 0 is in a call that is not the engine's, where the other one never comes.
  std::vector<Status> all(2, ok_status());
  run_ranks(2, [&](Comm& comm) {
    auto made = Engine::create(plan_for(2, with(Strategy::kDdp)), AdamW{}, comm,
                               std::chrono::milliseconds(20));
    ASSERT_TRUE(made);
    Status& mine = all[static_cast<std::size_t>(comm.rank())];
    if (comm.rank() == 1) {
      mine = (*made)->end_backward();
      comm.revoke();
    } else {
      int number = 0;
      mine = comm.all_reduce<int>(std::span(&number, 1), std::span(&number, 1));
    }
  });
  ASSERT_FALSE(all[1]);
  EXPECT_THAT(all[1].error().what, HasSubstr("without begin_backward"));
  EXPECT_FALSE(all[0]);
}

}  // namespace
}  // namespace tutti::training
