#include "training/fully_sharded.hpp"

#include <gmock/gmock.h>

#include "training/data_parallel.hpp"
#include "training/sharded_adamw.hpp"
#include "training/test_model.hpp"

namespace tutti::training {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A unit for each parameter.
std::shared_ptr<const FlatLayout> units(int shards) {
  return std::make_shared<const FlatLayout>(
      *FlatLayout::create(model(), {{"first", {0}}, {"second", {1}}, {"third", {2}}}, shards));
}

/// The part of this rank of the first values.
void fill(FullySharded& training) {
  for (GroupId unit = 0; unit < 3; ++unit)
    for (const Piece& piece : training.layout().pieces(unit, training.rank()))
      for (std::size_t i = 0; i < piece.count; ++i)
        training.shard(unit)[piece.offset + i] = first_value(piece.parameter, piece.begin + i);
}

/// Forward over all units, gathering the next beside each; backward in reverse.
void run_pass(FullySharded& training, int step, int part) {
  for (GroupId unit = 0; unit < 3; ++unit) {
    ASSERT_TRUE(training.use(unit));
    if (unit < 2) {
      ASSERT_TRUE(training.prefetch(unit + 1));
    }
    EXPECT_TRUE(training.release(unit));
  }
  for (GroupId unit = 3; unit-- > 0;) {
    ASSERT_TRUE(training.use(unit));
    if (unit > 0) {
      ASSERT_TRUE(training.prefetch(unit - 1));
    }
    ASSERT_TRUE(training.begin_gradients(unit));
    const std::span<const float> parameter = training.parameter(unit);
    const std::span<float> gradient = training.gradient(unit);
    ASSERT_EQ(parameter.size(), gradient.size());
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient[i] = gradient_of(parameter[i], step, part, unit, i);
    ASSERT_TRUE(training.reduce(unit));
    EXPECT_TRUE(training.release(unit));
  }
  ASSERT_TRUE(training.finish());
}

std::vector<float> all_parameters(FullySharded& training) {
  std::vector<float> all;
  for (GroupId unit = 0; unit < 3; ++unit) {
    const auto whole = training.use(unit);
    EXPECT_TRUE(whole);
    all.insert(all.end(), whole->begin(), whole->end());
    EXPECT_TRUE(training.release(unit));
  }
  return all;
}

/// ZeRO-3, one part of the batch a rank.
std::vector<float> train(Comm& comm, const FullyShardedOptions& options) {
  const auto layout = units(comm.size());
  auto made = FullySharded::create(layout, comm, comm, options);
  EXPECT_TRUE(made) << made.error().what;
  FullySharded& training = **made;
  fill(training);
  ShardedAdamW optimizer(layout, comm.rank(), {});
  for (int step = 0; step < kSteps; ++step) {
    training.clear();
    run_pass(training, step, comm.rank());
    optimizer.begin_step();
    for (GroupId unit = 0; unit < 3; ++unit)
      optimizer.step(unit, training.gradient_shard(unit), training.shard(unit),
                     static_cast<float>(1.0 / comm.size()));
  }
  return all_parameters(training);
}

/// DDP, likewise.
std::vector<float> train_replicated(Comm& comm) {
  auto training = *DataParallel::create(model(), comm, {});
  for (ParameterId id = 0; id < 3; ++id)
    for (std::size_t i = 0; i < training->parameter(id).size(); ++i)
      training->parameter(id)[i] = first_value(id, i);
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_TRUE(training->begin_backward());
    for (ParameterId id = 0; id < 3; ++id) {
      const std::span<const float> parameter = training->parameter(id);
      for (std::size_t i = 0; i < parameter.size(); ++i)
        training->gradient(id)[i] = gradient_of(parameter[i], step, comm.rank(), id, i);
      EXPECT_TRUE(training->ready(id));
    }
    EXPECT_TRUE(training->end_backward());
    EXPECT_TRUE(training->step(1.0 / comm.size()));
  }
  std::vector<float> all;
  for (ParameterId id = 0; id < 3; ++id)
    all.insert(all.end(), training->parameter(id).begin(), training->parameter(id).end());
  return all;
}

TEST(FullySharded, TrainsToTheBitsOfReplicas) {
  for (const int ranks : {1, 2, 3, 4}) {
    const auto replicated =
        outcome_of_all(ranks, [](Comm& comm) { return Outcome{train_replicated(comm), {}}; });
    for (const FullyShardedOptions& options :
         {FullyShardedOptions{}, FullyShardedOptions{1, 1}, FullyShardedOptions{3, 3}})
      EXPECT_EQ(
          outcome_of_all(ranks, [&](Comm& comm) { return Outcome{train(comm, options), {}}; }),
          replicated)
          << ranks << " ranks, " << options.parameter_windows << " windows";
  }
}

TEST(FullySharded, AddsUpTheGradientsOfSeveralPasses) {
  run_ranks(2, [](Comm& comm) {
    auto training = *FullySharded::create(units(2), comm, comm);
    for (int pass = 0; pass < 3; ++pass)
      for (GroupId unit = 0; unit < 3; ++unit) {
        const auto gradients = training->begin_gradients(unit);
        ASSERT_TRUE(gradients) << gradients.error().what;
        std::ranges::fill(*gradients, static_cast<float>(pass + 1));
        ASSERT_TRUE(training->reduce(unit));
      }
    ASSERT_TRUE(training->finish());
    for (GroupId unit = 0; unit < 3; ++unit)
      for (const Piece& piece : training->layout().pieces(unit, comm.rank()))
        for (std::size_t i = 0; i < piece.count; ++i)
          ASSERT_EQ(training->gradient_shard(unit)[piece.offset + i], 12);
  });
}

TEST(FullySharded, GathersAnewWhatWasReleasedBeforeItWasUsed) {
  run_ranks(2, [](Comm& comm) {
    auto training = *FullySharded::create(units(2), comm, comm);
    ASSERT_TRUE(training->prefetch(1));
    ASSERT_TRUE(training->release(1));
    std::ranges::fill(training->shard(1), static_cast<float>(comm.rank() + 1));
    const auto whole = training->use(1);
    ASSERT_TRUE(whole) << whole.error().what;
    EXPECT_EQ(whole->front(), 1);
    EXPECT_EQ(whole->back(), 2);
  });
}

TEST(FullySharded, SaysWhichUnitsHaveTheWindows) {
  run_ranks(1, [](Comm& comm) {
    auto training = *FullySharded::create(units(1), comm, comm, {.parameter_windows = 1});
    ASSERT_TRUE(training->use(1));
    EXPECT_THAT(training->use(0).error().what,
                HasSubstr("unit 'first' has no window to be gathered to, since 'second' are in"));
    EXPECT_TRUE(training->prefetch(0));  // nothing to do for now
    EXPECT_TRUE(training->release(1));
    EXPECT_THAT(training->parameter(1), IsEmpty());
    EXPECT_TRUE(training->use(0));
  });
}

TEST(FullySharded, RefusesGradientsOutOfTurn) {
  run_ranks(1, [](Comm& comm) {
    auto training = *FullySharded::create(units(1), comm, comm, {.gradient_windows = 1});
    EXPECT_THAT(training->reduce(0).error().what, HasSubstr("no gradients to reduce"));
    ASSERT_TRUE(training->begin_gradients(0));
    EXPECT_THAT(training->begin_gradients(0).error().what, HasSubstr("second time"));
    EXPECT_THAT(training->begin_gradients(1).error().what,
                HasSubstr("since those of 'first' are not complete"));
    ASSERT_TRUE(training->reduce(0));
    EXPECT_TRUE(training->begin_gradients(1));  // once the first have arrived
    EXPECT_THAT(FullySharded::create(units(2), comm, comm).error().what,
                HasSubstr("2 shards over 1 and 1 ranks"));
    EXPECT_THAT(FullySharded::create(units(1), comm, comm, {.parameter_windows = 0}).error().what,
                HasSubstr("0 windows"));
  });
}

}  // namespace
}  // namespace tutti::training
