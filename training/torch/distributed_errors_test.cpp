// What a DistributedModel says when something is wrong.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "training/torch/distributed.hpp"
#include "training/torch/failure.hpp"
#include "training/torch/test_modules.hpp"

namespace tutti::training {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// What each rank's pass says.
std::vector<std::string> complaints(const Make& make, const DistributedOptions& options) {
  std::vector<std::string> found(2);
  run_ranks(2, [&](Comm& comm) {
    const Made made = make(comm.rank());
    // A rank may still be making the engine when the other one gives up.
    const auto model = DistributedModel::create(made.module, made.units, options, comm);
    const Status ran = model ? run_pass(**model, made, comm.rank()) : Status(model.error());
    found[static_cast<std::size_t>(comm.rank())] = ran ? "" : ran.error().what;
  });
  return found;
}

TEST_F(Distributed, ParametersWithoutAGradientAreNamed) {
  for (const PlanOptions& plan : strategies(2)) {
    for (const std::string& what : complaints(make_partly_unused, {.plan = plan})) {
      EXPECT_THAT(what, AllOf(HasSubstr("unused.weight"), HasSubstr("unused.bias"),
                              HasSubstr("spare"), testing::Not(HasSubstr("'used"))))
          << describe(plan);
    }
  }
}

TEST_F(Distributed, ParametersWithoutAGradientCountAsZerosWhereThatIsAskedFor) {
  Values expected = plain_gradients(make_partly_unused, 2);
  EXPECT_EQ(expected.size(), 2);
  expected["unused.weight"].resize(16);
  expected["unused.bias"].resize(4);
  expected["spare"].resize(5);
  for (const PlanOptions& plan : strategies(2)) {
    EXPECT_EQ(
        distributed_gradients(make_partly_unused, 2, {.plan = plan, .zeros_for_unused = true}),
        expected)
        << describe(plan);
  }
}

TEST_F(Distributed, WhatLibTorchThrowsOnOneRankEndsTrainingOnAllWithItsWords) {
  for (const PlanOptions& plan : strategies(2)) {
    run_ranks(2, [&](Comm& comm) {
      const Made made = make_small_gpt(0);
      // Rank 0 may still be making the engine when the other one gives up.
      const auto model = DistributedModel::create(made.module, made.units, {.plan = plan}, comm);
      Status ran = model ? ok_status() : Status(model.error());
      if (model) {
        const auto loss = (*model)->forward([&] {
          return comm.rank() == 1 ? torch::ones({2}).mm(torch::ones({3})) : made.loss(0);
        });
        ran = loss ? (*model)->backward(*loss, true) : Status(loss.error());
        if (ran) {  // all that it needed had come before
          const auto stepped = (*model)->step({});
          if (!stepped) ran = stepped.error();
        }
      }
      ASSERT_FALSE(ran);
      EXPECT_EQ(ran.error().code, comm.rank() == 1 ? Code::kInvalidArgument : Code::kPeerFailed);
      EXPECT_THAT(ran.error().what, HasSubstr("must be a matrix")) << describe(plan);
      if (model) {
        EXPECT_EQ((*model)->step({}).error(), ran.error());
      }
    });
  }
}

TEST_F(Distributed, ALossIsOneNumberThatDependsOnParameters) {
  for (const torch::Tensor& wrong : {torch::Tensor(), torch::ones({2}), torch::ones({})}) {
    run_ranks(1, [&](Comm& comm) {
      const auto model = distribute(make_small_gpt(0), {}, comm);
      ASSERT_NE(model, nullptr);
      EXPECT_THAT(model->backward(wrong, true).error().what, HasSubstr("one number"));
    });
  }
}

TEST_F(Distributed, AnErrorOfTheEngineEndsTheBackwardPassAsItIs) {
  run_ranks(1, [&](Comm& comm) {
    const Made made = make_small_gpt(0);
    const auto model = distribute(made, {}, comm);
    ASSERT_NE(model, nullptr);
    const auto loss = model->forward([&] { return made.loss(0); });
    ASSERT_TRUE(loss);
    const auto ran = guarded([&] { loss->backward(); });  // around the model, outside of a pass
    ASSERT_FALSE(ran);
    EXPECT_EQ(ran.error().code, Code::kInvalidUsage);
    EXPECT_THAT(ran.error().what, HasSubstr("outside of begin_backward()"));
  });
}

std::string complaint_about(const Made& made) {
  std::string what;
  run_ranks(1, [&](Comm& comm) {
    const auto model = DistributedModel::create(made.module, made.units, {}, comm);
    if (!model) what = model.error().what;
  });
  return what;
}

TEST_F(Distributed, ModelsThatCannotBeDistributedAreExplained) {
  Made made = make_one_used_twice(0);
  made.units.push_back(std::make_shared<Layer>(0));
  EXPECT_THAT(complaint_about(made), HasSubstr("unit 2 of 3 is no module inside the model"));

  made = make_one_used_twice(0);
  made.units[0]->register_module("deep", made.units[1]);
  EXPECT_THAT(complaint_about(made), HasSubstr("have 'outer.deep' in common"));

  made = make_one_used_twice(0);
  made.module->register_parameter("fine", torch::ones({2}, torch::kFloat64));
  EXPECT_THAT(complaint_about(made), AllOf(HasSubstr("'fine'"), HasSubstr("Double")));

  made = make_one_used_twice(0);
  const torch::Tensor memory = torch::ones({2});
  made.module->register_parameter("one", memory);
  made.module->register_parameter("two", memory.detach());
  EXPECT_THAT(complaint_about(made), HasSubstr("'one' and 'two' are two tensors of one memory"));
}

TEST_F(Distributed, RanksWithOtherFrozenTensorsAreNamed) {
  run_ranks(2, [&](Comm& comm) {
    Made made = make_one_used_twice(0);
    if (comm.rank() == 1) made.module->register_buffer("more", torch::ones({3}));
    const auto model = DistributedModel::create(made.module, made.units, {}, comm);
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().peer, 1);
    EXPECT_THAT(model.error().what, HasSubstr("'more' of [3]"));
  });
}

}  // namespace
}  // namespace tutti::training
