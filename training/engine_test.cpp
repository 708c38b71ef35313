#include "training/engine.hpp"

#include <array>
#include <filesystem>
#include <limits>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "training/test_driver.hpp"

namespace tutti::training {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// ---- The same bits

TEST(Engine, OfTwoRanksIsOneProcessWithTwoPasses) {
  EXPECT_EQ(train(2, with(Strategy::kDdp)), train(1, with(Strategy::kDdp, 2)));
}

TEST(Engine, HasTheSameBitsForEveryStrategy) {
  for (const int ranks : {1, 2, 3, 4}) {
    const Trained expected = train(ranks, with(Strategy::kDdp));
    for (const Strategy strategy : {Strategy::kZero1, Strategy::kZero2, Strategy::kZero3})
      EXPECT_EQ(train(ranks, with(strategy)), expected)
          << ranks << " ranks, strategy " << static_cast<int>(strategy);
  }
}

TEST(Engine, HasTheSameBitsForAnyBuckets) {
  const Trained expected = train(3, with(Strategy::kZero1));
  for (const std::size_t elements : {1UL, 100UL, 10'000UL})
    for (const Strategy strategy : {Strategy::kDdp, Strategy::kZero2}) {
      PlanOptions options = with(strategy);
      options.buckets = {elements, elements};
      EXPECT_EQ(train(3, options), expected) << elements;
    }
}

TEST(Engine, HasTheSameBitsWhateverIsKeptAfterTheForwardPass) {
  const Trained expected = train(4, with(Strategy::kDdp));
  PlanOptions options = with(Strategy::kZero3);
  options.after_forward = AfterForward::kKeep;
  EXPECT_EQ(train(4, options), expected);
  options.after_forward = AfterForward::kSecondary;
  options.secondary_ranks = 2;
  EXPECT_EQ(train(4, options), expected);
  EXPECT_EQ(train(4, with(Strategy::kZero3), kSteps, true), expected);
}

TEST(Engine, HasTheSameBitsForAnyPrefetch) {
  const Trained expected = train(2, with(Strategy::kDdp));
  for (const std::size_t bytes : {0UL, 2000UL, 1UL << 20U}) {
    PlanOptions options = with(Strategy::kZero3);
    options.prefetch_bytes = bytes;
    EXPECT_EQ(train(2, options), expected) << bytes;
  }
}

TEST(Engine, HasTheSameBitsForSeveralPassesOfWholeGradients) {
  const Trained expected = train(2, with(Strategy::kDdp, 3));
  EXPECT_EQ(train(2, with(Strategy::kZero1, 3)), expected);
  for (const Strategy strategy : {Strategy::kZero2, Strategy::kZero3}) {
    PlanOptions options = with(strategy, 3);
    options.whole_gradients = true;
    EXPECT_EQ(train(2, options), expected);
  }
}

TEST(Engine, HasTheSameBitsForSeveralPassesOfShardedGradients) {
  const Trained expected = train(2, with(Strategy::kZero2, 3));
  EXPECT_EQ(train(2, with(Strategy::kZero3, 3)), expected);
}

TEST(Engine, AddsUpReplicasOfShards) {
  PlanOptions options = with(Strategy::kZero3, 2);
  options.shard_ranks = 2;
  const Trained hybrid = train(4, options), replicas = train(4, with(Strategy::kDdp, 2));
  for (const auto& [name, expected] : replicas.state)
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(hybrid.state.at(name)[i], expected[i], 1e-3) << name;  // another order of sums
}

// ---- Deterministic sums

class Deterministic : public ::testing::TestWithParam<Shape> {};

TEST_P(Deterministic, HasTheBitsOfOneRankWithEightPasses) {
  PlanOptions one = with(Strategy::kDdp, 8);
  one.deterministic = true;
  static const Trained expected = train(1, one);
  PlanOptions options = GetParam().options;
  options.deterministic = true;
  options.passes = 8 / GetParam().ranks;
  EXPECT_EQ(train(GetParam().ranks, options), expected);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Deterministic,
    ::testing::Values(
        Shape{"Ddp2", 2, with(Strategy::kDdp)}, Shape{"Ddp4", 4, with(Strategy::kDdp)},
        Shape{"Ddp8", 8, with(Strategy::kDdp)}, Shape{"Zero1Of4", 4, with(Strategy::kZero1)},
        Shape{"Zero2Of2", 2, with(Strategy::kZero2)}, Shape{"Zero2Of8", 8, with(Strategy::kZero2)},
        Shape{"Zero3Of1", 1, with(Strategy::kZero3)}, Shape{"Zero3Of2", 2, with(Strategy::kZero3)},
        Shape{"Zero3Of4", 4, with(Strategy::kZero3)}, Shape{"Zero3Of8", 8, with(Strategy::kZero3)},
        Shape{"HybridOf4", 4, hybrid(2)}, Shape{"HybridOf8", 8, hybrid(2)},
        Shape{"HybridOf8By4", 8, hybrid(4)}, Shape{"SecondaryOf4", 4, secondary(2)}),
    [](const auto& info) { return info.param.name; });

TEST(Engine, CountsGradientsThatAreMissingAsZerosWhateverTheyFill) {
  // Two of three groups wait for one parameter each when the third comes.
  std::vector<std::vector<float>> outcomes;
  for (const Strategy strategy :
       {Strategy::kDdp, Strategy::kZero1, Strategy::kZero2, Strategy::kZero3})
    run_ranks(2, [&](Comm& comm) {
      PlanOptions options = with(strategy);
      options.buckets = {1, 1};
      if (strategy == Strategy::kZero2) options.buckets = {450, 450};
      auto made = Engine::create(plan_for(2, options), AdamW{}, comm);
      ASSERT_TRUE(made) << made.error().what;
      Engine& engine = **made;
      Driver driver(engine, comm);
      driver.fill();
      for (int step = 0; step < 3; ++step) {
        ASSERT_TRUE(engine.begin_backward(true));
        for (const ParameterId id : {ParameterId{4}, ParameterId{2}, ParameterId{0}}) {
          const GroupId unit = id / 2;
          ASSERT_TRUE(engine.use(unit, Pass::kBackward));
          // Each rank leaves out another one.
          if (static_cast<int>(id) / 2 != comm.rank()) {
            ASSERT_TRUE(driver.give_gradient(step, 0, id));
          }
          ASSERT_TRUE(engine.release(unit, Pass::kBackward));
        }
        for (const ParameterId id : engine.missing()) ASSERT_TRUE(engine.ready_without(id));
        const Status ended = engine.end_backward();
        ASSERT_TRUE(ended) << ended.error().what;
        ASSERT_TRUE(engine.step({}));
      }
      auto values = engine.whole(0);
      ASSERT_TRUE(values);
      if (comm.rank() == 0) outcomes.push_back(*std::move(values));
    });
  ASSERT_EQ(outcomes.size(), 4U);
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome, outcomes[0]);
}

TEST(Engine, KeepsTheOptimizersLearningRateUnlessAStepHasAnother) {
  run_ranks(1, [](Comm& comm) {
    PlanOptions options = with(Strategy::kDdp);
    options.moments = 0;
    auto made = Engine::create(plan_for(1, options), Sgd{.learning_rate = 0.5}, comm);
    ASSERT_TRUE(made);
    Driver driver(**made, comm);
    driver.fill();
    for (const auto& [rate, expected] : {std::pair{std::optional<double>(), 0.5},
                                         {std::optional(0.25), 0.25},
                                         {std::optional<double>(), 0.25}}) {
      const float before = (*(*made)->whole(4))[3];
      const float gradient = gradient_of(before, 0, 0, 4, 3);
      ASSERT_TRUE(driver.backward(0, 0));
      ASSERT_TRUE((*made)->step({.gradient_scale = 1, .learning_rate = rate}));
      EXPECT_NEAR((*(*made)->whole(4))[3], before - expected * gradient, 1e-6);
    }
  });
}

// ---- Other types

TEST(Engine, TrainsInHalvesWithMastersInFloat32) {
  for (const DataType type : {DataType::kBfloat16, DataType::kFloat16}) {
    PlanOptions options = with(Strategy::kDdp);
    const Trained exact = train(2, options);
    options.compute = type;
    const Trained expected = train(2, options);
    for (const auto& [name, values] : exact.state)
      for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(expected.state.at(name)[i], values[i], 0.02) << name;
    EXPECT_NE(expected, exact);
    for (const Strategy strategy : {Strategy::kZero1, Strategy::kZero2, Strategy::kZero3}) {
      options.strategy = strategy;
      EXPECT_EQ(train(2, options), expected);
    }
    options.reduce = type;
    const Trained rounded = train(2, options);
    EXPECT_NE(rounded, expected);
    options.strategy = Strategy::kDdp;
    EXPECT_EQ(train(2, options), rounded);
  }
}

// ---- Steps

TEST(Engine, StepsWithGradientDescentUnderEveryStrategy) {
  const Sgd sgd{.learning_rate = 1e-2, .momentum = 0.9};
  std::vector<std::vector<float>> outcomes;
  for (const Strategy strategy :
       {Strategy::kDdp, Strategy::kZero1, Strategy::kZero2, Strategy::kZero3}) {
    run_ranks(2, [&](Comm& comm) {
      PlanOptions options = with(strategy);
      EXPECT_FALSE(Engine::create(plan_for(2, options), sgd, comm));
      options.moments = 1;
      auto made = Engine::create(plan_for(2, options), sgd, comm);
      ASSERT_TRUE(made) << made.error().what;
      Driver driver(**made, comm);
      driver.fill();
      for (int step = 0; step < kSteps; ++step) ASSERT_TRUE(driver.step(step));
      auto values = (*made)->whole(2);
      ASSERT_TRUE(values);
      if (comm.rank() == 0) outcomes.push_back(*std::move(values));
    });
  }
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome, outcomes[0]);
}

TEST(Engine, ClipsToTheNormOfAllGradients) {
  for (const Strategy strategy : {Strategy::kDdp, Strategy::kZero3}) {
    run_ranks(2, [&](Comm& comm) {
      auto made = Engine::create(plan_for(2, with(strategy)), AdamW{}, comm);
      ASSERT_TRUE(made) << made.error().what;
      Driver driver(**made, comm);
      driver.fill();
      const auto free = driver.step(0);
      ASSERT_TRUE(free) << free.error().what;
      driver.clip = 1e-3;
      const auto clipped = driver.step(1);
      ASSERT_TRUE(clipped);
      EXPECT_GT(clipped->norm, 1e-3);
      float largest = 0;  // of what the second moments gained: (1 - beta2) x gradient^2
      for (const OwnedPiece& piece : (*made)->owned())
        if (piece.kind == "first")
          for (const float moment : piece.data) largest = std::max(largest, std::fabs(moment));
      EXPECT_LT(largest, free->norm);
    });
  }
}

TEST(Engine, SkipsAStepWhoseGradientsAreNoNumbers) {
  for (const Strategy strategy : {Strategy::kDdp, Strategy::kZero1, Strategy::kZero3})
    run_ranks(2, [&](Comm& comm) {
      auto made = Engine::create(plan_for(2, with(strategy)), AdamW{}, comm);
      ASSERT_TRUE(made) << made.error().what;
      Driver driver(**made, comm);
      driver.fill();
      const auto before = (*made)->whole(2);
      ASSERT_TRUE((*made)->begin_backward(true));
      for (GroupId unit = 3; unit-- > 0;) {
        ASSERT_TRUE((*made)->use(unit, Pass::kBackward));
        for (const ParameterId id : units()[unit].group.parameters) {
          const auto place = (*made)->gradient(id);
          ASSERT_TRUE(place);
          const std::span<float> gradient = as_floats(place->data);
          std::ranges::fill(gradient, 1.0F);
          if (id == 2 && comm.rank() == 1) gradient[5] = std::numeric_limits<float>::infinity();
          ASSERT_TRUE((*made)->ready(id));
        }
        ASSERT_TRUE((*made)->release(unit, Pass::kBackward));
      }
      ASSERT_TRUE((*made)->end_backward());
      const auto stepped = (*made)->step({});
      ASSERT_TRUE(stepped) << stepped.error().what;
      EXPECT_TRUE(stepped->skipped);
      EXPECT_EQ((*made)->steps(), 0);
      EXPECT_EQ(*(*made)->whole(2), *before);
      const auto next = driver.step(1);
      ASSERT_TRUE(next) << next.error().what;
      EXPECT_FALSE(next->skipped);
    });
}

// ---- Checkpoints

class EngineCheckpoint : public ::testing::Test {
 protected:
  EngineCheckpoint() {
    std::string name = ::testing::TempDir() + "tutti_engine_XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~EngineCheckpoint() override { fs::remove_all(folder_); }

  /// Steps [from, to), from a checkpoint unless from is 0; saves at the end.
  Trained run(int ranks, PlanOptions options, int from, int to) {
    options.deterministic = true;
    options.passes = 8 / ranks;
    Collected collected;
    run_ranks(ranks, [&](Comm& comm) {
      auto made = Engine::create(plan_for(ranks, options), AdamW{}, comm);
      ASSERT_TRUE(made) << made.error().what;
      Engine& engine = **made;
      Driver driver(engine, comm);
      if (from == 0) {
        driver.fill();
      } else {
        const auto found = Checkpoint::open(folder_, static_cast<std::uint64_t>(from));
        ASSERT_TRUE(found) << found.error().what;
        const auto loaded = engine.load(*found, from);
        ASSERT_TRUE(loaded) << loaded.error().what;
      }
      for (int step = from; step < to; ++step) {
        ASSERT_TRUE(driver.step(step));
      }
      const auto owned = engine.owned();
      const Status saved =
          save_checkpoint(folder_, {static_cast<std::uint64_t>(to), {}}, table(), owned, comm);
      ASSERT_TRUE(saved) << saved.error().what;
      collected.add(engine, {});
    });
    return collected.trained();
  }

  fs::path folder_;
};

TEST_F(EngineCheckpoint, IsReadByAnyNumberOfRanksUnderAnyStrategy) {
  const Trained whole = run(4, with(Strategy::kZero3), 0, kSteps);
  fs::remove_all(folder_);
  run(4, with(Strategy::kZero3), 0, kSteps / 2);
  const std::array<std::pair<int, PlanOptions>, 6> resumed = {{{1, with(Strategy::kDdp)},
                                                               {2, with(Strategy::kZero2)},
                                                               {4, with(Strategy::kZero1)},
                                                               {4, hybrid(2)},
                                                               {8, with(Strategy::kZero3)},
                                                               {8, with(Strategy::kDdp)}}};
  for (const auto& [ranks, options] : resumed) {
    fs::remove_all(folder_ / fmt::format("step_{}", kSteps));
    EXPECT_EQ(run(ranks, options, kSteps / 2, kSteps).state, whole.state) << ranks;
  }
}

TEST_F(EngineCheckpoint, OfFourRanksIsReadByThree) {
  run(4, with(Strategy::kZero2), 0, 3);
  Collected collected;
  run_ranks(3, [&](Comm& comm) {
    auto made = Engine::create(plan_for(3, with(Strategy::kZero3)), AdamW{}, comm);
    ASSERT_TRUE(made);
    const auto found = Checkpoint::open(folder_);
    ASSERT_TRUE(found);
    ASSERT_TRUE((*made)->load(*found, 3));
    EXPECT_EQ((*made)->steps(), 3);
    collected.add(**made, {});
  });
  fs::remove_all(folder_);
  EXPECT_EQ(collected.trained().state, run(4, with(Strategy::kZero2), 0, 3).state);
}

TEST_F(EngineCheckpoint, ThatIsDamagedEndsTraining) {
  run(2, with(Strategy::kZero1), 0, 2);
  fs::resize_file(folder_ / "step_2" / "rank_1.bin", 100);
  run_ranks(2, [&](Comm& comm) {
    auto made = Engine::create(plan_for(2, with(Strategy::kZero1)), AdamW{}, comm);
    ASSERT_TRUE(made);
    const auto found = Checkpoint::open(folder_);
    ASSERT_TRUE(found);
    const auto loaded = (*made)->load(*found, 2);
    ASSERT_FALSE(loaded);
    EXPECT_THAT(loaded.error().what, HasSubstr("rank_1.bin"));
    EXPECT_FALSE((*made)->begin_backward(true)) << "on values of which some were read";
  });
}

}  // namespace
}  // namespace tutti::training
