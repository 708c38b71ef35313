#include "training/data_parallel.hpp"

#include <limits>

#include <gmock/gmock.h>

#include "training/test_model.hpp"

namespace tutti::training {
namespace {

using ::testing::HasSubstr;

/// Adds up the gradients of one part, and says that they are ready if it is the last of the step.
void run_backward(DataParallel& training, int step, int part, bool is_last) {
  if (is_last) {
    ASSERT_TRUE(training.begin_backward());
  }
  for (ParameterId id = 3; id > 0; --id) {
    const std::span<float> into = training.gradient(id - 1), parameter = training.parameter(id - 1);
    for (std::size_t i = 0; i < into.size(); ++i)
      into[i] += gradient_of(parameter[i], step, part, id - 1, i);
    if (is_last) {
      ASSERT_TRUE(training.ready(id - 1));
    }
  }
  if (is_last) {
    ASSERT_TRUE(training.end_backward());
  }
}

/// `parts` micro-batches a step, spread over the ranks in order.
Outcome train(Comm& comm, int parts, const DataParallelOptions& options) {
  Outcome outcome;
  auto made = DataParallel::create(model(), comm, options);
  EXPECT_TRUE(made) << made.error().what;
  DataParallel& training = **made;
  for (ParameterId id = 0; id < 3 && comm.rank() == 0; ++id)
    for (std::size_t i = 0; i < training.parameter(id).size(); ++i)
      training.parameter(id)[i] = first_value(id, i);
  EXPECT_TRUE(training.broadcast());
  const int own = parts / comm.size();
  for (int step = 0; step < kSteps; ++step) {
    for (int part = 0; part < own; ++part)
      run_backward(training, step, comm.rank() * own + part, part + 1 == own);
    const auto stepped = training.step(1.0 / parts);
    EXPECT_TRUE(stepped) << stepped.error().what;
    outcome.norms.push_back(stepped->norm);
  }
  for (ParameterId id = 0; id < 3; ++id) {
    const auto values = training.parameter(id);
    outcome.parameters.insert(outcome.parameters.end(), values.begin(), values.end());
  }
  return outcome;
}

Outcome train_all(int ranks, int parts, const DataParallelOptions& options) {
  return outcome_of_all(ranks, [&](Comm& comm) { return train(comm, parts, options); });
}

TEST(DataParallel, OfTwoRanksIsOneProcessWithTwoMicroBatches) {
  const Outcome one = train_all(1, 2, {});
  EXPECT_EQ(train_all(2, 2, {}), one);
  EXPECT_NE(one.parameters[0], first_value(0, 0));  // it did train
}

TEST(DataParallel, HasTheSameBitsWithZero1) {
  for (const int ranks : {2, 3, 4})
    EXPECT_EQ(train_all(ranks, ranks, {.strategy = Strategy::kZero1}), train_all(ranks, ranks, {}))
        << ranks << " ranks";
}

TEST(DataParallel, HasTheSameBitsForAnyBuckets) {
  const Outcome usual = train_all(3, 3, {});
  for (const Strategy strategy : {Strategy::kDdp, Strategy::kZero1})
    for (const std::size_t elements : {1U, 64U, 1000U}) {
      const DataParallelOptions options{.strategy = strategy, .buckets = {elements, elements}};
      EXPECT_EQ(train_all(3, 3, options), usual) << elements << " elements";
    }
}

TEST(DataParallel, ClipsToTheNormOfAllGradients) {
  const DataParallelOptions clipped{.clip_norm = 0.01}, far{.clip_norm = 1e9};
  EXPECT_EQ(train_all(2, 2, far), train_all(2, 2, {}));
  const DataParallelOptions sharded{.strategy = Strategy::kZero1, .clip_norm = 0.01};
  EXPECT_EQ(train_all(2, 2, sharded), train_all(2, 2, clipped));
  EXPECT_NE(train_all(2, 2, clipped).parameters, train_all(2, 2, {}).parameters);
}

TEST(DataParallel, SkipsAStepWhoseGradientsAreNoNumbers) {
  for (const Strategy strategy : {Strategy::kDdp, Strategy::kZero1})
    run_ranks(2, [&](Comm& comm) {
      auto training = *DataParallel::create(model(), comm, {.strategy = strategy});
      ASSERT_TRUE(training->begin_backward());
      if (comm.rank() == 1) training->gradient(1)[3] = std::numeric_limits<float>::quiet_NaN();
      for (const ParameterId id : {0U, 1U, 2U}) ASSERT_TRUE(training->ready(id));
      ASSERT_TRUE(training->end_backward());
      const auto stepped = training->step(0.5);
      ASSERT_TRUE(stepped) << stepped.error().what;
      EXPECT_TRUE(stepped->skipped);
      EXPECT_EQ(training->optimizer().steps(), 0);
      for (const ParameterId id : {0U, 1U, 2U})
        for (const float value : training->parameter(id)) ASSERT_EQ(value, 0);
    });
}

TEST(DataParallel, StepsOnceForEachReduction) {
  run_ranks(2, [](Comm& comm) {
    auto training = *DataParallel::create(model(), comm, {});
    EXPECT_THAT(training->step(1).error().what, HasSubstr("not reduced"));
    ASSERT_TRUE(training->begin_backward());
    for (const ParameterId id : {0U, 1U, 2U}) ASSERT_TRUE(training->ready(id));
    ASSERT_TRUE(training->end_backward());
    EXPECT_THAT(training->begin_backward().error().what, HasSubstr("reduced already"));
    EXPECT_THAT(training->step(0).error().what, HasSubstr("above 0, not by 0"));
    EXPECT_TRUE(training->step(1));
    EXPECT_FALSE(training->step(1));
    EXPECT_THAT(DataParallel::create(model(), comm, {.clip_norm = -1}).error().what,
                HasSubstr("not to -1"));
  });
}

TEST(DataParallel, IsRefusedToRanksWithDifferentModels) {
  run_ranks(3, [](Comm& comm) {
    DataParallelOptions options;
    if (comm.rank() == 2) options.optimizer.learning_rate = 0.5;
    const auto made = DataParallel::create(model(), comm, options);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().peer, 2);
    EXPECT_THAT(made.error().what, HasSubstr("ranks 0 and 2 train different models"));
  });
}

}  // namespace
}  // namespace tutti::training
