// For tests: modules small enough to compare every bit of them, trained by ranks that are threads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/utils.h>

#include "training/test_model.hpp"
#include "training/torch/distributed.hpp"
#include "training/torch/gpt.hpp"

namespace tutti::training {

namespace nn = torch::nn;

using Values = std::map<std::string, std::vector<float>>;

/// One rank's model.
struct Made {
  std::shared_ptr<nn::Module> module;
  UnitModules units;
  std::function<torch::Tensor(int part)> loss;  ///< of one part of the batch
};
using Make = std::function<Made(Rank rank)>;

inline std::vector<float> numbers(const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.detach().to(torch::kFloat32).contiguous();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

// ---- Models

inline constexpr GptOptions kGpt = {.layers = 3, .heads = 2, .width = 16, .context = 12};

inline torch::Tensor tokens_of(int part, std::int64_t shift = 0) {
  return ((torch::arange(24).view({2, 12}) + shift) * 37 + part * 101) % 256;
}

inline Made make_small_gpt(Rank rank, const GptOptions& options = kGpt, bool recomputes = false) {
  // Other initial values on each rank: rank 0's must win.
  Gpt model = *make_gpt(options, 1 + static_cast<std::uint64_t>(rank));
  model->set_recomputes(recomputes);
  return {model.ptr(), model->units(),
          [model](int part) mutable { return model->loss(tokens_of(part), tokens_of(part, 1)); }};
}

inline Made make_gpt_of_rank(Rank rank) { return make_small_gpt(rank); }

inline torch::Tensor random_values(at::IntArrayRef shape, Rank rank) {
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

inline torch::Tensor input_of(int part) { return random_values({3, 4}, part + 10); }

/// Its first unit gets an input without a gradient, and is used once more at the end.
inline Made make_one_used_twice(Rank rank) {
  auto module = std::make_shared<nn::Module>();
  auto outer = module->register_module("outer", std::make_shared<Layer>(rank));
  auto inner = module->register_module("inner", std::make_shared<Layer>(rank + 1));
  return {module, {outer, inner}, [=](int part) {
            return outer->forward(inner->forward(outer->forward(input_of(part)))).sum();
          }};
}

/// Units that are frozen, partly frozen and not frozen, and a buffer.
inline Made make_partly_frozen(Rank rank) {
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

/// A unit's weight also belongs to another unit, and to the root under one more name.
inline Made make_shared(Rank rank) {
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

/// An unused unit, and a parameter of the root.
inline Made make_partly_unused(Rank rank) {
  auto module = std::make_shared<nn::Module>();
  auto used = module->register_module("used", std::make_shared<Layer>(rank));
  auto unused = module->register_module("unused", std::make_shared<Layer>(rank));
  module->register_parameter("spare", random_values({5}, rank));
  return {module, {used, unused}, [=](int part) { return used->forward(input_of(part)).sum(); }};
}

// ---- Training

/// What all ranks own together, by name.
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

inline void expect_ok(const Status& status) { EXPECT_TRUE(status) << status.error().what; }

inline std::unique_ptr<DistributedModel> distribute(const Made& made,
                                                    const DistributedOptions& options, Comm& comm) {
  auto model = DistributedModel::create(made.module, made.units, options, comm);
  EXPECT_TRUE(model) << model.error().what;
  return model ? *std::move(model) : nullptr;
}

/// One forward and one backward pass.
inline Status run_pass(DistributedModel& model, const Made& made, int part, bool is_last = true) {
  const auto loss = model.forward([&] { return made.loss(part); });
  return loss ? model.backward(*loss, is_last) : Status(loss.error());
}

/// Sums of gradients over ranks, each with one part of the batch.
inline Values distributed_gradients(const Make& make, int ranks,
                                    const DistributedOptions& options) {
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

/// The same with LibTorch only.
inline Values plain_gradients(const Make& make, int parts) {
  const Made made = make(0);
  for (int part = 0; part < parts; ++part) made.loss(part).backward();
  Values gradients;
  std::set<const void*> known;  // each under its first name
  for (const auto& item : made.module->named_parameters()) {
    const torch::Tensor gradient = item.value().grad();
    if (gradient.defined() && known.insert(gradient.data_ptr()).second) {
      gradients[item.key()] = numbers(gradient);
    }
  }
  return gradients;
}

/// Strategies that make a difference.
inline std::vector<PlanOptions> strategies(int ranks) {
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

inline std::string describe(const PlanOptions& plan) {
  return "strategy " + std::to_string(static_cast<int>(plan.strategy)) + ", after forward " +
         std::to_string(static_cast<int>(plan.after_forward)) + ", " +
         std::to_string(plan.shard_ranks) + " shards, windows of " +
         std::to_string(plan.prefetch_bytes.value_or(1)) + " bytes";
}

// ---- Steps

struct Trained {
  Values parameters;
  std::vector<double> norms;
  friend bool operator==(const Trained&, const Trained&) = default;
};

/// Takes three steps, each over `parts` parts of a batch: one after the other, or one per rank.
/// Inside a host the library adds in rank order, so both ways add alike.
inline Trained train(int parts, int ranks, const Make& make, DistributedOptions options) {
  const int passes = options.plan.passes = parts / ranks;
  Trained trained;
  Collected parameters;
  run_ranks(ranks, [&](Comm& comm) {
    const Made made = make(comm.rank());
    const auto model = distribute(made, options, comm);
    ASSERT_NE(model, nullptr);
    for (int step = 0; step < 3; ++step) {
      for (int pass = 0; pass < passes; ++pass) {
        const int part = step * parts + pass * ranks + comm.rank();
        expect_ok(run_pass(*model, made, part, pass + 1 == passes));
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

class Distributed : public testing::Test {
 protected:
  void SetUp() override { set_compute_threads(1); }
};

}  // namespace tutti::training
