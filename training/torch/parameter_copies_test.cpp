// Modules that compute with copies of their parameters: on the CPU, where every bit can be
// compared, and on a GPU where there is one.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/cuda.h>

#include "training/torch/test_modules.hpp"

namespace tutti::training {
namespace {

using ParameterCopies = Distributed;

TEST_F(ParameterCopies, GiveTheGradientsOfAutogradBitForBit) {
  const std::vector<std::pair<const char*, Make>> models = {
      {"a GPT", make_gpt_of_rank},
      {"recomputed", [](Rank rank) { return make_small_gpt(rank, kGpt, true); }},
      {"a unit used twice", make_one_used_twice},
      {"a tensor of several names", make_shared},
      {"partly frozen", make_partly_frozen}};
  for (const auto& [name, make] : models) {
    const Values expected = plain_gradients(make, 2);
    for (const PlanOptions& plan : strategies(2)) {
      EXPECT_EQ(distributed_gradients(make, 2, {.plan = plan, .copies_parameters = true}), expected)
          << name << ", " << describe(plan);
    }
  }
}

TEST_F(ParameterCopies, TrainTheSameBits) {
  for (const DataType compute : {DataType::kFloat32, DataType::kBfloat16}) {
    const Trained expected = train(4, 2, make_gpt_of_rank, {.plan = {.compute = compute}});
    for (PlanOptions plan : strategies(2)) {
      if (plan.strategy == Strategy::kZero2 || plan.strategy == Strategy::kZero3) {
        if (!plan.whole_gradients) continue;  // adds the passes in another order
      }
      plan.compute = compute;
      EXPECT_EQ(train(4, 2, make_gpt_of_rank, {.plan = plan, .copies_parameters = true}), expected)
          << describe(plan);
    }
  }
}

TEST_F(ParameterCopies, FollowWhatTheEngineIsGiven) {
  for (const PlanOptions& plan : strategies(2)) {
    run_ranks(2, [&](Comm& comm) {
      const Made made = make_one_used_twice(0);
      const auto model = distribute(made, {.plan = plan, .copies_parameters = true}, comm);
      ASSERT_NE(model, nullptr);
      expect_ok(model->engine().fill(
          [](ParameterId, std::span<float> values) { std::ranges::fill(values, 0.0F); }));
      double sum = 1;
      expect_ok(model->evaluate([&] { sum = made.loss(0).item<double>(); }));
      EXPECT_EQ(sum, 0) << describe(plan);  // tanh(0)
    });
  }
}

TEST_F(ParameterCopies, OfAUnitAreFreedWhenItIsGivenUp) {
  run_ranks(2, [&](Comm& comm) {
    const Made made = make_small_gpt(comm.rank());
    const auto model =
        distribute(made, {.plan = {.strategy = Strategy::kZero3}, .copies_parameters = true}, comm);
    ASSERT_NE(model, nullptr);
    const auto memory = [&] { return made.units[0]->parameters()[0].storage().data_ptr().get(); };
    EXPECT_EQ(memory(), nullptr);
    expect_ok(run_pass(*model, made, comm.rank()));
    EXPECT_EQ(memory(), nullptr);
    EXPECT_TRUE(model->step({}));
  });
}

TEST_F(ParameterCopies, AreOfOneDevice) {
  const Made made = make_one_used_twice(0);
  made.module->register_parameter("elsewhere", torch::empty({2}, torch::kMeta));
  const auto trained = trained_parameters(*made.module);
  ASSERT_FALSE(trained);
  EXPECT_NE(trained.error().what.find("'elsewhere'"), std::string::npos) << trained.error().what;
}

/// As on the CPU but for rounding.
TEST_F(ParameterCopies, TrainOnAGpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "this LibTorch sees no GPU";
  const auto on_gpu = [](Rank rank) {
    Made made = make_small_gpt(rank, kGpt, true);
    made.module->to(torch::kCUDA);
    return made;
  };
  const Trained expected = train(2, 2, make_gpt_of_rank, {});
  for (const PlanOptions& plan : strategies(2)) {
    const Trained trained = train(2, 2, on_gpu, {.plan = plan});
    ASSERT_EQ(trained.norms.size(), expected.norms.size()) << describe(plan);
    for (std::size_t step = 0; step < trained.norms.size(); ++step) {
      EXPECT_NEAR(trained.norms[step] / expected.norms[step], 1, 1e-3) << describe(plan);
    }
  }
}

}  // namespace
}  // namespace tutti::training
