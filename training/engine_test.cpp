#include "training/engine.hpp"

#include <array>
#include <barrier>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <malloc.h>

#include "training/numbers.hpp"
#include "training/test_model.hpp"

namespace tutti::training {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

ParameterTable table() {
  return *ParameterTable::create({{"in", {20, 3}},
                                  {"bias", {20}, false},
                                  {"hidden.weight", {20, 20}},
                                  {"hidden.scale", {20}},
                                  {"out", {7, 20}}});
}

const std::vector<Plan::Unit>& units() {
  static const std::vector<Plan::Unit> made = {
      {{"in", {0, 1}}}, {{"hidden", {2, 3}}}, {{"out", {4}}}};
  return made;
}

Plan plan_for(int ranks, const PlanOptions& options, bool root_stays = false) {
  auto grouped = units();
  grouped[0].keeps_whole = root_stays;
  auto plan = Plan::create(table(), grouped, ranks, options);
  EXPECT_TRUE(plan) << plan.error().what;
  return *std::move(plan);
}

/// What a rank does in a step, as a program would drive the engine.
class Driver {
 public:
  Driver(Engine& engine, Comm& comm) : engine_(engine), comm_(comm) {}

  void fill() {
    const Status filled = try_to_fill();
    ASSERT_TRUE(filled) << filled.error().what;
  }
  Status try_to_fill() {
    return engine_.fill([](ParameterId id, std::span<float> into) {
      for (std::size_t i = 0; i < into.size(); ++i) into[i] = first_value(id, i);
    });
  }

  /// Parts of the batch are micro-batches: of this rank one after the other, or in turns with the
  /// others where sums are to be those of one tree.
  [[nodiscard]] int part_of(int pass) const {
    const int passes = engine_.plan().options().passes;
    return engine_.plan().options().deterministic ? pass * comm_.size() + comm_.rank()
                                                  : comm_.rank() * passes + pass;
  }

  Status forward() {
    for (GroupId unit = 0; unit < 3; ++unit) {
      const auto used = engine_.use(unit, Pass::kForward);
      if (!used) return used.error();
      if (Status released = engine_.release(unit, Pass::kForward); !released) return released;
    }
    return ok_status();
  }

  Status backward(int step, int pass) {
    const bool is_last = pass + 1 == engine_.plan().options().passes;
    if (Status begun = engine_.begin_backward(is_last); !begun) return begun;
    for (GroupId unit = 3; unit-- > 0;) {
      const auto used = engine_.use(unit, Pass::kBackward);
      if (!used) return used.error();
      const auto parameters = units()[unit].group.parameters;
      for (auto id = parameters.rbegin(); id != parameters.rend(); ++id)
        if (Status given = give_gradient(step, pass, *id); !given) return given;
      if (Status released = engine_.release(unit, Pass::kBackward); !released) return released;
    }
    return engine_.end_backward();
  }

  Status give_gradient(int step, int pass, ParameterId id) {
    const std::vector<float> values =
        numbers(engine_.plan().options().compute, engine_.parameter(id));
    const DataType sent = engine_.plan().options().reduce;
    const auto place = engine_.gradient(id);
    if (!place) return place.error();
    std::vector<float> gradient(values.size());
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient[i] = gradient_of(values[i], step, part_of(pass), id, i);
    if (place->adds) add_as(sent, place->data, gradient);
    write_as(sent, gradient, place->data);
    return engine_.ready(id);
  }

  Result<StepOutcome> step(int number) {
    const int passes = engine_.plan().options().passes;
    for (int pass = 0; pass < passes; ++pass) {
      if (Status done = forward(); !done) return done.error();
      if (Status done = backward(number, pass); !done) return done.error();
    }
    return engine_.step({1.0 / (passes * comm_.size()), 1e-3, clip});
  }

  static std::vector<float> numbers(DataType type, std::span<const std::byte> from) {
    std::vector<float> values(from.size() / bytes_of(type));
    read_as(type, from, values);
    return values;
  }

  std::optional<double> clip;

 private:
  Engine& engine_;
  Comm& comm_;
};

/// All that ranks end with: parameters and moments whole, by kind and name; norms of all steps.
struct Trained {
  std::map<std::string, std::vector<float>> state;
  std::vector<double> norms;
  friend bool operator==(const Trained&, const Trained&) = default;
};

/// Each rank adds what it owns.
class Collected {
 public:
  Collected() {
    const ParameterTable all = table();
    for (ParameterId id = 0; id < all.size(); ++id)
      for (const char* const kind : {"parameter", "first", "second"})
        trained_.state[kind + (" " + all[id].name)].assign(all.elements(id),
                                                           std::numeric_limits<float>::quiet_NaN());
  }
  void add(Engine& engine, const std::vector<double>& norms) {
    const std::lock_guard lock(mutex_);
    for (const OwnedPiece& piece : engine.owned()) {
      auto& into = trained_.state[piece.kind + " " + table()[piece.parameter].name];
      std::ranges::copy(piece.data, into.begin() + static_cast<std::ptrdiff_t>(piece.begin));
    }
    if (!trained_.norms.empty()) {
      EXPECT_EQ(trained_.norms, norms);
    }
    trained_.norms = norms;
  }
  [[nodiscard]] const Trained& trained() const { return trained_; }

 private:
  std::mutex mutex_;
  Trained trained_;
};

Trained train(int ranks, const PlanOptions& options, int steps = kSteps, bool root_stays = false) {
  Collected collected;
  run_ranks(ranks, [&](Comm& comm) {
    auto made = Engine::create(plan_for(ranks, options, root_stays), AdamW{}, comm);
    ASSERT_TRUE(made) << made.error().what;
    Driver driver(**made, comm);
    driver.fill();
    std::vector<double> norms;
    for (int step = 0; step < steps; ++step) {
      const auto stepped = driver.step(step);
      ASSERT_TRUE(stepped) << stepped.error().what;
      norms.push_back(stepped->norm);
    }
    collected.add(**made, norms);
  });
  return collected.trained();
}

PlanOptions with(Strategy strategy, int passes = 1) {
  PlanOptions options;
  options.strategy = strategy;
  options.passes = passes;
  return options;
}

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

struct Shape {
  const char* name;
  int ranks;
  PlanOptions options;
};

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

PlanOptions hybrid(int shard_ranks) {
  PlanOptions options = with(Strategy::kZero3);
  options.shard_ranks = shard_ranks;
  return options;
}

PlanOptions secondary(int ranks) {
  PlanOptions options = with(Strategy::kZero3);
  options.after_forward = AfterForward::kSecondary;
  options.secondary_ranks = ranks;
  return options;
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
        const Status loaded = engine.load(*found, from);
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
    const Status loaded = (*made)->load(*found, 2);
    ASSERT_FALSE(loaded);
    EXPECT_THAT(loaded.error().what, HasSubstr("rank_1.bin"));
    EXPECT_FALSE((*made)->begin_backward(true)) << "on values of which some were read";
  });
}

// ---- What goes wrong

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
        for (const GroupId unit : {GroupId{0}, GroupId{2}}) {
          if (const auto used = engine.use(unit, Pass::kForward); !used)
            return Status(used.error());
          if (Status done = engine.release(unit, Pass::kForward); !done) return done;
        }
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
    const std::array<GroupId, 3> order =
        rank == 1 ? std::array<GroupId, 3>{0, 2, 1} : std::array<GroupId, 3>{0, 1, 2};
    for (const GroupId unit : order) {
      if (const auto used = engine.use(unit, Pass::kForward); !used) return Status(used.error());
      if (Status done = engine.release(unit, Pass::kForward); !done) return done;
    }
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

// ---- What it costs

TEST(Engine, AllocatesWhatThePlanSays) {
  for (const Strategy strategy :
       {Strategy::kDdp, Strategy::kZero1, Strategy::kZero2, Strategy::kZero3})
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16})
      run_ranks(4, [&](Comm& comm) {
        PlanOptions options = with(strategy, 2);
        options.compute = type;
        if (strategy == Strategy::kZero3) {
          options.after_forward = AfterForward::kSecondary;
          options.secondary_ranks = 2;
        }
        const Plan plan = plan_for(4, options);
        auto made = Engine::create(plan, AdamW{}, comm);
        ASSERT_TRUE(made) << made.error().what;
        EXPECT_EQ((*made)->memory(), plan.memory());
      });
}

/// One of three units is large, and one of an odd size.
Result<Plan> large_plan(int ranks, const PlanOptions& options, int times = 1) {
  const ParameterTable large = *ParameterTable::create(
      {{"in", {times, 512, 401}}, {"hidden", {times, 256, 1024}}, {"out", {times, 77, 1024}}});
  return Plan::create(large, {{{"in", {0}}}, {{"hidden", {1}}}, {{"out", {2}}}}, ranks, options);
}

/// Every unit once forward and once backward, in each pass; gradients stay as they are.
void take_step(Engine& engine) {
  const int passes = engine.plan().options().passes;
  for (int pass = 0; pass < passes; ++pass) {
    for (const GroupId unit : {0U, 1U, 2U}) {
      ASSERT_TRUE(engine.use(unit, Pass::kForward));
      ASSERT_TRUE(engine.release(unit, Pass::kForward));
    }
    ASSERT_TRUE(engine.begin_backward(pass + 1 == passes));
    for (const GroupId unit : {2U, 1U, 0U}) {
      ASSERT_TRUE(engine.use(unit, Pass::kBackward));
      ASSERT_TRUE(engine.gradient(unit));
      ASSERT_TRUE(engine.ready(unit));
      ASSERT_TRUE(engine.release(unit, Pass::kBackward));
    }
    ASSERT_TRUE(engine.end_backward());
  }
  const auto stepped = engine.step({});
  ASSERT_TRUE(stepped) << stepped.error().what;
}

class Traffic : public ::testing::TestWithParam<Shape> {};

TEST_P(Traffic, IsWhatThePlanSaysToTheByte) {
  const auto plan = large_plan(GetParam().ranks, GetParam().options);
  ASSERT_TRUE(plan) << plan.error().what;
  run_ranks(GetParam().ranks, [&](Comm& comm) {
    auto made = Engine::create(*plan, AdamW{}, comm);
    ASSERT_TRUE(made) << made.error().what;
    Engine& engine = **made;
    (void)engine.take_traffic();
    const TrafficPlan planned = plan->traffic();
    for (int step = 0; step < 2; ++step) {
      take_step(engine);
      const Engine::Traffic sent = engine.take_traffic();
      EXPECT_EQ(sent.payload.gathers, planned.gathers);
      EXPECT_EQ(sent.payload.reductions, planned.reductions);
      EXPECT_EQ(sent.payload.replicas, planned.replicas);
      EXPECT_LT(sent.others, 1000);
    }
  });
}

PlanOptions kept() {
  PlanOptions options = with(Strategy::kZero3, 2);
  options.after_forward = AfterForward::kKeep;
  return options;
}

PlanOptions whole() {
  PlanOptions options = with(Strategy::kZero2, 3);
  options.whole_gradients = true;
  return options;
}

PlanOptions in_halves(Strategy strategy, DataType reduce) {
  PlanOptions options = with(strategy);
  options.compute = DataType::kBfloat16;
  options.reduce = reduce;
  return options;
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Traffic,
    ::testing::Values(Shape{"Ddp1", 1, with(Strategy::kDdp)},
                      Shape{"Ddp2", 2, with(Strategy::kDdp, 2)},
                      Shape{"Ddp3", 3, with(Strategy::kDdp)},
                      Shape{"Ddp4", 4, with(Strategy::kDdp)},
                      Shape{"Ddp4InHalves", 4, in_halves(Strategy::kDdp, DataType::kBfloat16)},
                      Shape{"Zero1Of3", 3, with(Strategy::kZero1, 2)},
                      Shape{"Zero1Of4", 4, in_halves(Strategy::kZero1, DataType::kFloat32)},
                      Shape{"Zero2Of4", 4, with(Strategy::kZero2, 3)},
                      Shape{"Zero2Of4WithWholeGradients", 4, whole()},
                      Shape{"Zero3Of2", 2, with(Strategy::kZero3)},
                      Shape{"Zero3Of3", 3, with(Strategy::kZero3, 2)},
                      Shape{"Zero3Of4InHalves", 4, in_halves(Strategy::kZero3, DataType::kFloat32)},
                      Shape{"Zero3Of4Kept", 4, kept()}, Shape{"SecondaryOf4", 4, secondary(2)},
                      Shape{"HybridOf4", 4, hybrid(2)}),
    [](const auto& info) { return info.param.name; });

/// Bytes of the heap that are in use.
std::size_t heap() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(Engine, TakesNoMoreOfTheHeapThanThePlanSays) {
#ifdef TUTTI_SANITIZED
  GTEST_SKIP() << "sanitizers have a heap of their own";
#endif
  constexpr int kRanks = 4;
  for (const Strategy strategy :
       {Strategy::kDdp, Strategy::kZero1, Strategy::kZero2, Strategy::kZero3}) {
    PlanOptions options = with(strategy);
    options.compute = DataType::kBfloat16;
    const auto plan = large_plan(kRanks, options, 8);  // beside which communicators are small
    ASSERT_TRUE(plan);
    std::barrier together(kRanks);
    std::size_t before = 0, after = 0;
    run_ranks(kRanks, [&](Comm& comm) {
      together.arrive_and_wait();
      if (comm.rank() == 0) before = heap();
      together.arrive_and_wait();
      auto made = Engine::create(*plan, AdamW{}, comm);
      ASSERT_TRUE(made);
      for (int step = 0; step < 2; ++step) take_step(**made);
      together.arrive_and_wait();
      if (comm.rank() == 0) after = heap();
      together.arrive_and_wait();
    });
    const MemoryPlan memory = plan->memory();
    const auto planned = static_cast<double>(kRanks * (memory.moments + memory.masters));
    EXPECT_NEAR(static_cast<double>(after - before) / planned, 1, 0.05)
        << static_cast<int>(strategy);
  }
}

}  // namespace
}  // namespace tutti::training
