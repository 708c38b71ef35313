#include "training/torch/distributed.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include "training/torch/test_modules.hpp"

namespace tutti::training {
namespace {

using testing::HasSubstr;

void expect_gradients_of_autograd(const Make& make) {
  const Values expected = plain_gradients(make, 2);
  ASSERT_FALSE(expected.empty());
  for (const PlanOptions& plan : strategies(2)) {
    EXPECT_EQ(distributed_gradients(make, 2, {.plan = plan}), expected) << describe(plan);
  }
}

TEST_F(Distributed, GradientsOfAGptAreThoseOfAutogradBitForBit) {
  expect_gradients_of_autograd(make_gpt_of_rank);
}

TEST_F(Distributed, GradientsOfAnUntiedGptAreThoseOfAutogradBitForBit) {
  GptOptions options = kGpt;
  options.tied = false;
  expect_gradients_of_autograd([=](Rank rank) { return make_small_gpt(rank, options); });
}

TEST_F(Distributed, GradientsWithRecomputedBlocksAreThoseOfAutogradBitForBit) {
  expect_gradients_of_autograd([](Rank rank) { return make_small_gpt(rank, kGpt, true); });
}

TEST_F(Distributed, AUnitMayBeUsedTwice) { expect_gradients_of_autograd(make_one_used_twice); }

TEST_F(Distributed, ATensorMayHaveSeveralNamesAndBeUsedOutsideOfItsUnit) {
  expect_gradients_of_autograd(make_shared);
}

TEST_F(Distributed, FrozenParametersAndBuffersComeFromRankZeroAndStay) {
  expect_gradients_of_autograd(make_partly_frozen);
}

TEST_F(Distributed, GradientsAreThoseOfFiniteDifferences) {
  const Values gradients =
      distributed_gradients(make_gpt_of_rank, 2, {.plan = {.strategy = Strategy::kZero3}});
  Gpt model = *make_gpt(kGpt, 1);
  model->to(torch::kFloat64);
  const torch::NoGradGuard no_gradients;
  const auto loss_at = [&](double step) {  // along all gradients at once
    for (auto& item : model->named_parameters()) {
      const auto& gradient = gradients.at(item.key());
      item.value().add_(torch::tensor(gradient, torch::kFloat64).view_as(item.value()), step);
    }
    double sum = 0;  // of unrounded logits, which loss() does not give
    for (int part = 0; part < 2; ++part) {
      const torch::Tensor chances = model->forward(tokens_of(part)).log_softmax(-1);
      sum -= chances.gather(-1, tokens_of(part, 1).unsqueeze(-1)).sum().item<double>();
    }
    for (auto& item : model->named_parameters()) {
      const auto& gradient = gradients.at(item.key());
      item.value().sub_(torch::tensor(gradient, torch::kFloat64).view_as(item.value()), step);
    }
    return sum;
  };
  double squares = 0;
  for (const auto& [name, values] : gradients) {
    for (const float value : values) squares += static_cast<double>(value) * value;
  }
  constexpr double kStep = 1e-7;
  EXPECT_NEAR((loss_at(kStep) - loss_at(-kStep)) / (2 * kStep) / squares, 1, 1e-5);
}

// ---- Steps

TEST_F(Distributed, TrainsTheSameBitsAsOneProcessUnderEveryStrategy) {
  for (const int ranks : {2, 4}) {
    const Trained expected = train(ranks, 1, make_gpt_of_rank, {});
    ASSERT_EQ(expected.norms.size(), 3);
    ASSERT_GT(expected.norms[0], 0.1);
    for (const PlanOptions& plan : strategies(ranks)) {
      if (plan.shard_ranks != 0) continue;  // adds among those that share shards first
      EXPECT_EQ(train(ranks, ranks, make_gpt_of_rank, {.plan = plan}), expected)
          << ranks << " ranks, " << describe(plan);
    }
  }
}

TEST_F(Distributed, CompressesWhatTheEngineDoes) {
  const Trained exact = train(2, 2, make_gpt_of_rank, {});
  PlanOptions zero{.strategy = Strategy::kZero3, .weights = "int8"};
  zero.gradients = *parse_gradient_compression("int4:errors=feedback");
  PlanOptions ddp{.gradients = *parse_gradient_compression("powersgd:4")};
  for (const PlanOptions& plan : {zero, ddp}) {
    const Trained found = train(2, 2, make_gpt_of_rank, {.plan = plan});
    EXPECT_EQ(train(2, 2, make_gpt_of_rank, {.plan = plan}), found);
    EXPECT_NE(found, exact);
    ASSERT_EQ(found.norms.size(), exact.norms.size());
    EXPECT_NEAR(found.norms[0] / exact.norms[0], 1, 0.2);
  }
}

TEST_F(Distributed, DeterministicSumsGiveTheSameBitsForEveryNumberOfRanks) {
  const Trained expected = train(4, 1, make_gpt_of_rank, {.plan = {.deterministic = true}});
  ASSERT_EQ(expected.norms.size(), 3);
  for (const int ranks : {2, 4}) {
    for (PlanOptions plan : strategies(ranks)) {
      plan.deterministic = true;
      EXPECT_EQ(train(4, ranks, make_gpt_of_rank, {.plan = plan}), expected)
          << ranks << " ranks, " << describe(plan);
    }
  }
}

void expect_same_bits_in(DataType compute) {
  const Trained expected = train(2, 2, make_gpt_of_rank, {.plan = {.compute = compute}});
  ASSERT_EQ(expected.norms.size(), 3);
  const Trained precise = train(2, 2, make_gpt_of_rank, {});
  EXPECT_NE(expected, precise);
  EXPECT_NEAR(expected.norms[0] / precise.norms[0], 1, 0.05);
  for (PlanOptions plan : strategies(2)) {
    plan.compute = compute;
    EXPECT_EQ(train(2, 2, make_gpt_of_rank, {.plan = plan}), expected) << describe(plan);
  }
}

TEST_F(Distributed, TrainsTheSameBitsInBfloat16UnderEveryStrategy) {
  expect_same_bits_in(DataType::kBfloat16);
}

TEST_F(Distributed, TrainsTheSameBitsInFloat16UnderEveryStrategy) {
  try {
    Gpt gpt = *make_gpt(kGpt, 1);
    gpt->to(torch::kFloat16);
    gpt->loss(tokens_of(0), tokens_of(0, 1)).backward();
  } catch (const c10::Error&) {
    GTEST_SKIP() << "this LibTorch does not compute in float16 on the CPU";
  }
  expect_same_bits_in(DataType::kFloat16);
}

TEST_F(Distributed, LearnsTheOrderOfGradientsAndTrainsTheSameBitsWithIt) {
  std::vector<std::vector<ParameterId>> orders(2);
  run_ranks(2, [&](Comm& comm) {
    const Made made = make_gpt_of_rank(comm.rank());
    const auto order = learn_order(*made.module, [&] { return made.loss(0); }, comm);
    ASSERT_TRUE(order) << order.error().what;
    orders[static_cast<std::size_t>(comm.rank())] = *order;
    for (const auto& parameter : made.module->parameters()) {
      EXPECT_FALSE(parameter.grad().defined());
    }
  });
  const auto& order = orders[0];
  EXPECT_EQ(order, orders[1]);
  const ParameterTable table = trained_parameters(*make_gpt_of_rank(0).module)->table;
  ASSERT_EQ(order.size(), table.size());
  const auto place = [&](const char* name) {
    return std::ranges::find(order, *table.find(name)) - order.begin();
  };
  EXPECT_LT(place("norm.weight"), place("blocks.2.mlp.down.weight"));
  EXPECT_LT(place("blocks.2.mlp.down.weight"), place("blocks.2.attention.qkv.weight"));
  EXPECT_LT(place("blocks.2.attention.qkv.weight"), place("blocks.0.mlp.down.weight"));
  EXPECT_LT(place("blocks.0.mlp.down.weight"), place("positions.weight"));
  EXPECT_EQ(train(2, 2, make_gpt_of_rank, {.order = order}), train(2, 2, make_gpt_of_rank, {}));
}

TEST_F(Distributed, PutsParametersThatGetNoGradientLastInTheOrder) {
  run_ranks(1, [&](Comm& comm) {
    const Made made = make_partly_unused(0);
    const auto order = learn_order(*made.module, [&] { return made.loss(0); }, comm);
    ASSERT_TRUE(order) << order.error().what;
    const auto table = trained_parameters(*made.module)->table;
    std::vector<std::string> names;
    for (const ParameterId id : *order) names.push_back(table[id].name);
    EXPECT_THAT(names, testing::ElementsAre(HasSubstr("used."), HasSubstr("used."), "unused.bias",
                                            "unused.weight", "spare"));
  });
}

// ---- Around training

TEST_F(Distributed, AUnitInShardsHasNoMemoryOutsideOfItsPasses) {
  run_ranks(2, [&](Comm& comm) {
    const Made made = make_small_gpt(comm.rank());
    const auto model = distribute(made, {.plan = {.strategy = Strategy::kZero3}}, comm);
    ASSERT_NE(model, nullptr);
    const auto has_memory = [&] {
      return made.units[0]->parameters()[0].storage().data_ptr().get() != nullptr;
    };
    EXPECT_FALSE(has_memory());
    const auto loss = model->forward([&] { return made.loss(0); });
    ASSERT_TRUE(loss);
    EXPECT_FALSE(has_memory());
    expect_ok(model->backward(*loss, true));
    EXPECT_FALSE(has_memory());
    EXPECT_TRUE(model->step({}));  // who leaves before it gives up, also for the others
  });
}

TEST_F(Distributed, EvaluatesAndSamplesAsThePlainModelDoes) {
  for (const PlanOptions& plan : strategies(2)) {
    run_ranks(2, [&](Comm& comm) {
      Gpt gpt = *make_gpt(kGpt, 1);
      const auto model = distribute({gpt.ptr(), gpt->units(), {}}, {.plan = plan}, comm);
      ASSERT_NE(model, nullptr);
      Gpt plain = *make_gpt(kGpt, 1);
      const std::vector<std::uint8_t> prompt = {'a', 'b'};
      torch::Tensor logits;
      std::vector<std::uint8_t> text;
      for (int i = 0; i < 2; ++i) {
        expect_ok(model->evaluate([&] {
          logits = gpt->forward(tokens_of(0));
          text = *sample(*gpt, prompt, {.count = 5});
        }));
        EXPECT_TRUE(logits.equal(plain->forward(tokens_of(0)))) << describe(plan);
        EXPECT_FALSE(logits.requires_grad());
        EXPECT_EQ(text, *sample(*plain, prompt, {.count = 5}));
        EXPECT_TRUE(gpt->is_training());
      }
    });
  }
}

TEST_F(Distributed, CopiesToAPlainModel) {
  for (const PlanOptions& plan : strategies(2)) {
    run_ranks(2, [&](Comm& comm) {
      const Made made = make_partly_frozen(comm.rank());
      const auto model = distribute(made, {.plan = plan}, comm);
      ASSERT_NE(model, nullptr);
      const Made plain = make_partly_frozen(5), expected = make_partly_frozen(0);
      expect_ok(model->copy_to(comm.rank() == 0 ? plain.module.get() : nullptr));
      if (comm.rank() != 0) return;
      const auto values = plain.module->named_parameters();
      for (const auto& item : expected.module->named_parameters()) {
        EXPECT_TRUE(values[item.key()].equal(item.value())) << item.key();
      }
      EXPECT_TRUE(
          plain.module->named_buffers()["scale"].equal(expected.module->named_buffers()["scale"]));
    });
  }
}

TEST_F(Distributed, SaysWhatAPlainModelLacks) {
  run_ranks(1, [&](Comm& comm) {
    const Made made = make_partly_frozen(0);
    const auto model = distribute(made, {}, comm);
    ASSERT_NE(model, nullptr);
    EXPECT_THAT(model->copy_to(make_one_used_twice(0).module.get()).error().what,
                HasSubstr("no 'partly.weight' of [4, 4]"));
  });
}

TEST_F(Distributed, LeavesNothingBehindThatCouldBeReadByMistake) {
  const Made made = make_small_gpt(0);
  run_ranks(1, [&](Comm& comm) { (void)distribute(made, {}, comm); });
  for (const auto& parameter : made.module->parameters()) EXPECT_EQ(parameter.numel(), 0);
}

TEST(KeepFreedMemory, HasLargeTensorsOnTheHeap) {
  keep_freed_memory();
  const auto mapped = mallinfo2().hblks;
  const torch::Tensor large = torch::empty({16 << 20});
  EXPECT_EQ(mallinfo2().hblks, mapped);
}

}  // namespace
}  // namespace tutti::training
