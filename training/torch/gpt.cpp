#include "training/torch/gpt.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/utils.h>

#include "training/outcome.hpp"

namespace tutti::training {
namespace {

namespace nn = torch::nn;

nn::LayerNorm layer_norm(std::int64_t width) {
  return nn::LayerNorm(nn::LayerNormOptions({width}));
}

torch::Tensor dropped(const torch::Tensor& input, double probability, bool is_training) {
  return probability > 0 && is_training ? torch::dropout(input, probability, true) : input;
}

}  // namespace

struct GptBlockImpl::AttentionImpl : nn::Module {
  explicit AttentionImpl(const GptOptions& options)
      : heads(options.heads),
        qkv(register_module("qkv", nn::Linear(options.width, 3 * options.width))),
        output(register_module("output", nn::Linear(options.width, options.width))) {}

  torch::Tensor forward(const torch::Tensor& input) {
    const std::int64_t batch = input.size(0), length = input.size(1), width = input.size(2);
    const std::int64_t size = width / heads;
    // [3, batch x heads, length, size]
    const torch::Tensor parts = qkv(input)
                                    .view({batch, length, 3, heads, size})
                                    .permute({2, 0, 3, 1, 4})
                                    .reshape({3, batch * heads, length, size});
    const auto split = parts.unbind(0);
    const torch::Tensor mask =
        torch::full({length, length}, -std::numeric_limits<float>::infinity(), input.options())
            .triu(1);
    const torch::Tensor weights = torch::baddbmm(mask, split[0], split[1].transpose(1, 2), 1,
                                                 1 / std::sqrt(static_cast<double>(size)))
                                      .softmax(-1);
    const torch::Tensor values = torch::bmm(weights, split[2])
                                     .view({batch, heads, length, size})
                                     .transpose(1, 2)
                                     .reshape({batch, length, width});
    return output(values);
  }

  std::int64_t heads;
  nn::Linear qkv, output;
};

struct GptBlockImpl::MlpImpl : nn::Module {
  explicit MlpImpl(const GptOptions& options)
      : up(register_module("up", nn::Linear(options.width, 4 * options.width))),
        down(register_module("down", nn::Linear(4 * options.width, options.width))) {}

  torch::Tensor forward(const torch::Tensor& input) { return down(torch::gelu(up(input))); }

  nn::Linear up, down;
};

GptBlockImpl::GptBlockImpl(const GptOptions& options)
    : dropout_(options.dropout),
      attention_norm_(register_module("attention_norm", layer_norm(options.width))),
      mlp_norm_(nullptr),
      attention_(register_module("attention", std::make_shared<AttentionImpl>(options))) {
  mlp_norm_ = register_module("mlp_norm", layer_norm(options.width));
  mlp_ = register_module("mlp", std::make_shared<MlpImpl>(options));
}

torch::Tensor GptBlockImpl::compute(const torch::Tensor& input) {
  const torch::Tensor attended =
      input + dropped(attention_->forward(attention_norm_(input)), dropout_, is_training());
  return attended + dropped(mlp_->forward(mlp_norm_(attended)), dropout_, is_training());
}

GptImpl::GptImpl(const GptOptions& options)
    : options_(options),
      tokens_(register_module("tokens", nn::Embedding(options.vocabulary, options.width))),
      positions_(register_module("positions", nn::Embedding(options.context, options.width))),
      norm_(nullptr) {
  auto blocks = register_module("blocks", std::make_shared<nn::ModuleListImpl>());
  for (std::int64_t i = 0; i < options.layers; ++i) {
    auto block = std::make_shared<GptBlockImpl>(options);
    blocks->push_back(block);
    blocks_.push_back(block);
  }
  norm_ = register_module("norm", layer_norm(options.width));
  if (!options.tied) {
    head_ = register_module(
        "head", nn::Linear(nn::LinearOptions(options.width, options.vocabulary).bias(false)));
  }
}

const torch::Tensor& GptImpl::output_weight() const {
  return head_ ? head_->weight : tokens_->weight;
}

torch::Tensor GptImpl::forward(const torch::Tensor& tokens) {
  torch::Tensor hidden = tokens_(tokens.to(output_weight().device())) +
                         positions_->weight.narrow(0, 0, tokens.size(1));
  hidden = dropped(hidden, options_.dropout, is_training());
  for (const auto& block : blocks_) hidden = block->forward(hidden);
  return torch::linear(norm_(hidden), output_weight());
}

torch::Tensor GptImpl::loss(const torch::Tensor& tokens, const torch::Tensor& targets) {
  const torch::Tensor logits = forward(tokens).view({-1, options_.vocabulary}).to(torch::kFloat32);
  return torch::cross_entropy_loss(logits, targets.to(logits.device()).reshape({-1}), {},
                                   at::Reduction::Sum);
}

void GptImpl::set_recomputes(bool recomputes) {
  for (const auto& block : blocks_) block->set_recomputes(recomputes);
}

namespace {

Status in_range(const char* name, std::int64_t value, std::int64_t most) {
  if (value >= 1 && value <= most) return ok_status();
  return failure(Code::kInvalidArgument, "the model's {} {} is not one of 1 to {}", name, value,
                 most);
}

/// The first values of one parameter.
void set_first_values(std::string_view name, torch::Tensor& values, const GptOptions& options,
                      const at::Generator& random) {
  if (name.ends_with(".bias")) {
    values.zero_();
  } else if (values.dim() == 1) {
    values.fill_(1);  // gains
  } else {
    const bool into_residual =
        name.ends_with(".attention.output.weight") || name.ends_with(".mlp.down.weight");
    const double layers = static_cast<double>(options.layers);
    values.normal_(0, into_residual ? 0.02 / std::sqrt(2 * layers) : 0.02, random);
  }
}

}  // namespace

Status check(const GptOptions& options) {
  TRAINING_TRY(in_range("number of layers", options.layers, 10'000));
  TRAINING_TRY(in_range("number of heads", options.heads, 10'000));
  TRAINING_TRY(in_range("width", options.width, 1'000'000));
  TRAINING_TRY(in_range("context", options.context, 10'000'000));
  TRAINING_TRY(in_range("vocabulary", options.vocabulary, 10'000'000));
  if (options.width % options.heads != 0) {
    return failure(Code::kInvalidArgument, "the model's width {} is no multiple of its {} heads",
                   options.width, options.heads);
  }
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    return failure(Code::kInvalidArgument, "the model's dropout {} is not from 0 to below 1",
                   options.dropout);
  }
  return ok_status();
}

std::int64_t parameter_count(const GptOptions& options) {
  const std::int64_t width = options.width;
  const std::int64_t block = 12 * width * width + 13 * width;
  const std::int64_t embeddings = (options.tied ? 1 : 2) * options.vocabulary + options.context;
  return options.layers * block + embeddings * width + 2 * width;
}

double flops_per_token(const GptOptions& options) {
  const auto width = static_cast<double>(options.width);
  const auto layers = static_cast<double>(options.layers);
  const double weights =
      layers * 12 * width * width + static_cast<double>(options.vocabulary) * width;
  return 6 * weights + 12 * layers * width * static_cast<double>(options.context);
}

Result<Gpt> make_gpt(const GptOptions& options, std::uint64_t seed) {
  TRAINING_TRY(check(options));
  Gpt model(options);
  const torch::NoGradGuard no_gradients;
  const auto random = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (auto& parameter : model->named_parameters()) {
    set_first_values(parameter.key(), parameter.value(), options, random);
  }
  return model;
}

}  // namespace tutti::training
