// A decoder-only transformer like GPT-2 (Radford et al., Language Models are Unsupervised Multitask
// Learners, 2019): LayerNorm before attention and before the MLP, learned positions, GELU.
//
// Parameters, where W is the width:
//   tokens.weight                       [vocabulary, W]   also the output's, if tied
//   positions.weight                    [context, W]
//   blocks.N.attention_norm.{weight,bias}                 [W]
//   blocks.N.attention.qkv.{weight,bias}                  [3 W, W], [3 W]
//   blocks.N.attention.output.{weight,bias}               [W, W], [W]
//   blocks.N.mlp_norm.{weight,bias}                       [W]
//   blocks.N.mlp.up.{weight,bias}                         [4 W, W], [4 W]
//   blocks.N.mlp.down.{weight,bias}                       [W, 4 W], [W]
//   norm.{weight,bias}                  [W]
//   head.weight                         [vocabulary, W]   unless tied
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include "training/torch/unit.hpp"
#include "tutti/error.hpp"

namespace tutti::training {

struct GptOptions {
  std::int64_t layers = 4, heads = 4;
  std::int64_t width = 128;       ///< a multiple of `heads`
  std::int64_t context = 128;     ///< tokens, at most
  std::int64_t vocabulary = 256;  ///< bytes
  double dropout = 0;             ///< in [0, 1)
  bool tied = true;               ///< the output uses the embedding's weights
  friend bool operator==(const GptOptions&, const GptOptions&) = default;
};

/// kInvalidArgument names the wrong option.
Status check(const GptOptions& options);
/// Number of parameters; tied ones count once.
std::int64_t parameter_count(const GptOptions& options);
/// Operations for one token forward and backward, in a sequence of `context` tokens:
/// multiplications and additions of matrix products. Attention counts as if it were not causal
/// (PaLM, Chowdhery et al., 2022, appendix B).
double flops_per_token(const GptOptions& options);

/// LayerNorm and attention, then LayerNorm and MLP, each added to its input. [batch, length,
/// width].
class GptBlockImpl : public UnitModule {
 public:
  explicit GptBlockImpl(const GptOptions& options);

 protected:
  torch::Tensor compute(const torch::Tensor& input) override;

 private:
  struct AttentionImpl;
  struct MlpImpl;
  double dropout_;
  torch::nn::LayerNorm attention_norm_, mlp_norm_;
  std::shared_ptr<AttentionImpl> attention_;
  std::shared_ptr<MlpImpl> mlp_;
};

class GptImpl : public torch::nn::Module {
 public:
  /// `options` must be checked. Does not set the values: see make_gpt().
  explicit GptImpl(const GptOptions& options);

  [[nodiscard]] const GptOptions& options() const { return options_; }
  /// `tokens`: int64 [batch, length], length at most context. Returns logits [batch, length,
  /// vocabulary].
  torch::Tensor forward(const torch::Tensor& tokens);
  /// The cross entropy of `targets` (same shape as `tokens`), SUMMED over all of them, in nats: a
  /// float32 scalar. The trainer divides by the number of tokens of all ranks.
  torch::Tensor loss(const torch::Tensor& tokens, const torch::Tensor& targets);

  /// The blocks, in order.
  [[nodiscard]] const UnitModules& units() const { return blocks_; }
  /// Whether blocks keep only their inputs for the backward pass.
  void set_recomputes(bool recomputes);

 private:
  [[nodiscard]] const torch::Tensor& output_weight() const;
  GptOptions options_;
  torch::nn::Embedding tokens_, positions_;
  UnitModules blocks_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear head_{nullptr};  ///< unless tied
};
TORCH_MODULE(Gpt);

/// Initial values as in GPT-2: normal with a deviation of 0.02; for projections into the residual
/// stream divided by sqrt(2 layers); biases 0, gains 1. Equal seeds give equal values. Does not use
/// the global generator. kInvalidArgument as check().
Result<Gpt> make_gpt(const GptOptions& options, std::uint64_t seed);

struct SampleOptions {
  std::size_t count = 256;  ///< number of tokens to add
  double temperature = 1;   ///< 0: always the likeliest token
  std::int64_t top_k = 0;   ///< chooses among this many of the likeliest; 0: among all
  std::uint64_t seed = 0;
};

/// Continues `prompt` (bytes) and returns what was added. Recomputes the whole context for every
/// token. Throws what LibTorch throws. For a distributed model, call it inside
/// DistributedModel::evaluate(), on all ranks alike. kInvalidArgument: an empty prompt, options out
/// of range, or a vocabulary other than 256.
Result<std::vector<std::uint8_t>> sample(GptImpl& model, std::span<const std::uint8_t> prompt,
                                         const SampleOptions& options);

}  // namespace tutti::training
