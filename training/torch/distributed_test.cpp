#include "training/torch/distributed.hpp"

#include <map>
#include <mutex>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <torch/autograd.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include "training/test_model.hpp"
#include "training/torch/failure.hpp"
#include "training/torch/gpt.hpp"

namespace tutti::training {
namespace {

namespace nn = torch::nn;
using testing::AllOf;
using testing::HasSubstr;

using Values = std::map<std::string, std::vector<float>>;

/// A model as one rank has it.
struct Made {
  std::shared_ptr<nn::Module> module;
  UnitModules units;
  std::function<torch::Tensor(int part)> loss;  ///< of a part of the batch
};
using Make = std::function<Made(Rank rank)>;

std::vector<float> numbers(const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.detach().to(torch::kFloat32).contiguous();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

// ---- Models

constexpr GptOptions kGpt = {.layers = 3, .heads = 2, .width = 16, .context = 12};

torch::Tensor tokens_of(int part, std::int64_t shift = 0) {
  return ((torch::arange(24).view({2, 12}) + shift) * 37 + part * 101) % 256;
}

Made make_small_gpt(Rank rank, const GptOptions& options = kGpt, bool recomputes = false) {
  // Other first values on each rank: rank 0's count.
  Gpt model = *make_gpt(options, 1 + static_cast<std::uint64_t>(rank));
  model->set_recomputes(recomputes);
  return {model.ptr(), model->units(),
          [model](int part) mutable { return model->loss(tokens_of(part), tokens_of(part, 1)); }};
}

Made make_gpt_of_rank(Rank rank) { return make_small_gpt(rank); }

torch::Tensor random_values(at::IntArrayRef shape, Rank rank) {
  return torch::sin(torch::arange(1, 1 + c10::multiply_integers(shape)) * (1.7 + rank)).view(shape);
}

/// tanh(W x + b).
struct Layer : UnitModule {
  explicit Layer(Rank rank, bool trains_bias = true)
      : weight(register_parameter("weight", random_values({4, 4}, rank))),
        bias(register_parameter("bias", random_values({4}, rank), trains_bias)) {}
  torch::Tensor compute(const torch::Tensor& input) override {
    return torch::tanh(torch::linear(input, weight, bias));
  }
  torch::Tensor weight, bias;
};

torch::Tensor input_of(int part) { return random_values({3, 4}, part + 10); }

/// Its first unit gets an input without gradient, and comes once more at the end.
Made make_one_used_twice(Rank rank) {
  auto module = std::make_shared<nn::Module>();
  auto outer = module->register_module("outer", std::make_shared<Layer>(rank));
  auto inner = module->register_module("inner", std::make_shared<Layer>(rank + 1));
  return {module, {outer, inner}, [=](int part) {
            return outer->forward(inner->forward(outer->forward(input_of(part)))).sum();
          }};
}

/// Frozen as a whole, in part, and not; and a buffer.
Made make_partly_frozen(Rank rank) {
  auto module = std::make_shared<nn::Module>();
  auto frozen = module->register_module("frozen", std::make_shared<Layer>(rank));
  frozen->weight.requires_grad_(false);
  frozen->bias.requires_grad_(false);
  auto partly = module->register_module("partly", std::make_shared<Layer>(rank, false));
  auto trained = module->register_module("trained", std::make_shared<Layer>(rank));
  const torch::Tensor scale = module->register_buffer("scale", random_values({4}, rank));
  return {
      module, {frozen, partly, trained}, [=](int part) {
        return (trained->forward(partly->forward(frozen->forward(input_of(part)))) * scale).sum();
      }};
}

/// A unit's weight is also another unit's, and one more name of the root's.
Made make_shared(Rank rank) {
  auto module = std::make_shared<nn::Module>();
  auto first = module->register_module("first", std::make_shared<Layer>(rank));
  auto own = module->register_parameter("own", random_values({4, 4}, rank));
  module->register_parameter("again", own);
  auto holder = module->register_module("second", std::make_shared<nn::Module>());
  holder->register_parameter("borrowed", first->weight);
  return {module, {first}, [=](int part) {
            const torch::Tensor hidden = first->forward(input_of(part)).mm(own);
            return hidden.mm(first->weight).mm(own.t()).sum();
          }};
}

/// A unit that is not used, and a parameter of the root.
Made make_partly_unused(Rank rank) {
  auto module = std::make_shared<nn::Module>();
  auto used = module->register_module("used", std::make_shared<Layer>(rank));
  auto unused = module->register_module("unused", std::make_shared<Layer>(rank));
  module->register_parameter("spare", random_values({5}, rank));
  return {module, {used, unused}, [=](int part) { return used->forward(input_of(part)).sum(); }};
}

// ---- Training

/// What ranks own together, by name.
class Collected {
 public:
  void add(Engine& engine, const std::string& kind) {
    const std::lock_guard lock(mutex_);
    const ParameterTable& table = engine.layout().table();
    for (const OwnedPiece& piece : engine.owned()) {
      if (piece.kind != kind) continue;
      auto& into = values_[table[piece.parameter].name];
      into.resize(table.elements(piece.parameter));
      std::ranges::copy(piece.data, into.begin() + static_cast<std::ptrdiff_t>(piece.begin));
    }
  }
  [[nodiscard]] const Values& values() const { return values_; }

 private:
  std::mutex mutex_;
  Values values_;
};

void expect_ok(const Status& status) { EXPECT_TRUE(status) << status.error().what; }

std::unique_ptr<DistributedModel> distribute(const Made& made, const DistributedOptions& options,
                                             Comm& comm) {
  auto model = DistributedModel::create(made.module, made.units, options, comm);
  EXPECT_TRUE(model) << model.error().what;
  return model ? *std::move(model) : nullptr;
}

/// One forward and one backward pass.
Status run_pass(DistributedModel& model, const Made& made, int part, bool is_last = true) {
  const auto loss = model.forward([&] { return made.loss(part); });
  return loss ? model.backward(*loss, is_last) : Status(loss.error());
}

/// Sums of gradients over ranks, each of which has one part of the batch.
Values distributed_gradients(const Make& make, int ranks, const DistributedOptions& options) {
  Collected gradients;
  DistributedOptions with = options;
  with.optimizer = AdamW{.beta1 = 0};  // the first moment is the gradient
  run_ranks(ranks, [&](Comm& comm) {
    const Made made = make(comm.rank());
    const auto model = distribute(made, with, comm);
    ASSERT_NE(model, nullptr);
    expect_ok(run_pass(*model, made, comm.rank()));
    ASSERT_TRUE(model->step({}));
    gradients.add(model->engine(), "first");
  });
  return gradients.values();
}

/// The same by LibTorch alone.
Values plain_gradients(const Make& make, int parts) {
  const Made made = make(0);
  for (int part = 0; part < parts; ++part) made.loss(part).backward();
  Values gradients;
  std::set<const void*> known;  // under the first of its names
  for (const auto& item : made.module->named_parameters()) {
    const torch::Tensor gradient = item.value().grad();
    if (gradient.defined() && known.insert(gradient.data_ptr()).second) {
      gradients[item.key()] = numbers(gradient);
    }
  }
  return gradients;
}

/// What ends up different under some strategy.
std::vector<PlanOptions> strategies(int ranks) {
  std::vector<PlanOptions> all;
  for (const Strategy strategy :
       {Strategy::kDdp, Strategy::kZero1, Strategy::kZero2, Strategy::kZero3}) {
    all.push_back({.strategy = strategy});
  }
  all.push_back({.strategy = Strategy::kZero3, .after_forward = AfterForward::kKeep});
  all.push_back({.strategy = Strategy::kZero3, .prefetch_bytes = 0});
  all.push_back({.strategy = Strategy::kZero3, .prefetch_bytes = 1 << 30});
  all.push_back({.strategy = Strategy::kZero3, .whole_gradients = true});
  if (ranks == 4) {
    all.push_back({.strategy = Strategy::kZero3, .shard_ranks = 2});
    all.push_back({.strategy = Strategy::kZero3,
                   .after_forward = AfterForward::kSecondary,
                   .secondary_ranks = 2});
  }
  return all;
}

std::string describe(const PlanOptions& plan) {
  return "strategy " + std::to_string(static_cast<int>(plan.strategy)) + ", after forward " +
         std::to_string(static_cast<int>(plan.after_forward)) + ", " +
         std::to_string(plan.shard_ranks) + " shards, windows of " +
         std::to_string(plan.prefetch_bytes.value_or(1)) + " bytes";
}

class Distributed : public testing::Test {
 protected:
  void SetUp() override { set_compute_threads(1); }
};

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

struct Trained {
  Values parameters;
  std::vector<double> norms;
  friend bool operator==(const Trained&, const Trained&) = default;
};

/// Three steps, each over `parts` parts of a batch: one after the other, or of a rank each. Inside
/// a host the library adds in the order of ranks, and so both ways add alike.
Trained train(int parts, int ranks, const Make& make, PlanOptions plan,
              const std::vector<ParameterId>& order = {}) {
  plan.passes = parts / ranks;
  Trained trained;
  Collected parameters;
  run_ranks(ranks, [&](Comm& comm) {
    const Made made = make(comm.rank());
    const auto model = distribute(made, {.plan = plan, .order = order}, comm);
    ASSERT_NE(model, nullptr);
    for (int step = 0; step < 3; ++step) {
      for (int pass = 0; pass < plan.passes; ++pass) {
        const int part = step * parts + pass * ranks + comm.rank();
        expect_ok(run_pass(*model, made, part, pass + 1 == plan.passes));
      }
      const auto outcome = model->step({.gradient_scale = 1.0 / 96, .clip_norm = 1.0});
      ASSERT_TRUE(outcome) << outcome.error().what;
      if (comm.rank() == 0) trained.norms.push_back(outcome->norm);
    }
    parameters.add(model->engine(), "parameter");
  });
  trained.parameters = parameters.values();
  return trained;
}

TEST_F(Distributed, TrainsTheSameBitsAsOneProcessUnderEveryStrategy) {
  for (const int ranks : {2, 4}) {
    const Trained expected = train(ranks, 1, make_gpt_of_rank, {});
    ASSERT_EQ(expected.norms.size(), 3);
    ASSERT_GT(expected.norms[0], 0.1);
    for (const PlanOptions& plan : strategies(ranks)) {
      if (plan.shard_ranks != 0) continue;  // adds among those that share shards first
      EXPECT_EQ(train(ranks, ranks, make_gpt_of_rank, plan), expected)
          << ranks << " ranks, " << describe(plan);
    }
  }
}

TEST_F(Distributed, DeterministicSumsGiveTheSameBitsForEveryNumberOfRanks) {
  const Trained expected = train(4, 1, make_gpt_of_rank, {.deterministic = true});
  ASSERT_EQ(expected.norms.size(), 3);
  for (const int ranks : {2, 4}) {
    for (PlanOptions plan : strategies(ranks)) {
      plan.deterministic = true;
      EXPECT_EQ(train(4, ranks, make_gpt_of_rank, plan), expected)
          << ranks << " ranks, " << describe(plan);
    }
  }
}

TEST_F(Distributed, TrainsTheSameBitsInBfloat16UnderEveryStrategy) {
  const Trained expected = train(2, 2, make_gpt_of_rank, {.compute = DataType::kBfloat16});
  ASSERT_EQ(expected.norms.size(), 3);
  const Trained precise = train(2, 2, make_gpt_of_rank, {});
  EXPECT_NE(expected, precise);
  EXPECT_NEAR(expected.norms[0] / precise.norms[0], 1, 0.05);
  for (PlanOptions plan : strategies(2)) {
    plan.compute = DataType::kBfloat16;
    EXPECT_EQ(train(2, 2, make_gpt_of_rank, plan), expected) << describe(plan);
  }
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
  EXPECT_EQ(train(2, 2, make_gpt_of_rank, {}, order), train(2, 2, make_gpt_of_rank, {}));
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

// ---- Unused parameters and other errors

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
