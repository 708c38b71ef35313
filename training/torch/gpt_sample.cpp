// sample(): one token after the other, each by the whole model.
#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "training/outcome.hpp"
#include "training/torch/evaluating.hpp"
#include "training/torch/gpt.hpp"

namespace tutti::training {
namespace {

constexpr std::int64_t kBytes = 256;

Status check(const GptImpl& model, std::span<const std::uint8_t> prompt,
             const SampleOptions& options) {
  if (model.options().vocabulary != kBytes) {
    return failure(Code::kInvalidArgument, "sampling bytes needs a vocabulary of {}, not {}",
                   kBytes, model.options().vocabulary);
  }
  if (prompt.empty()) {
    return failure(Code::kInvalidArgument, "sampling needs a prompt of at least one byte");
  }
  if (!(options.temperature >= 0 && std::isfinite(options.temperature))) {
    return failure(Code::kInvalidArgument, "the temperature {} is not finite and 0 or above",
                   options.temperature);
  }
  if (options.top_k < 0) {
    return failure(Code::kInvalidArgument, "top_k {} is below 0", options.top_k);
  }
  return ok_status();
}

/// Chooses by logits, of which the top_k largest count.
class Chooser {
 public:
  explicit Chooser(const SampleOptions& options) : options_(options), random_(options.seed) {}

  std::uint8_t choose(std::span<const float> logits) {
    std::vector<std::pair<float, std::uint8_t>> ranked;  // the likeliest first
    for (std::size_t i = 0; i < logits.size(); ++i) {
      ranked.emplace_back(logits[i], static_cast<std::uint8_t>(i));
    }
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    if (options_.temperature == 0) return ranked.front().second;
    const auto most = static_cast<std::size_t>(options_.top_k);
    if (most > 0 && most < ranked.size()) ranked.resize(most);
    return drawn(ranked);
  }

 private:
  std::uint8_t drawn(std::span<const std::pair<float, std::uint8_t>> ranked) {
    std::vector<double> sums;
    double sum = 0;
    for (const auto& [logit, token] : ranked) {
      sum += std::exp((static_cast<double>(logit) - static_cast<double>(ranked.front().first)) /
                      options_.temperature);
      sums.push_back(sum);
    }
    const double point = static_cast<double>(random_() >> 11) * 0x1p-53 * sum;
    const auto found = std::upper_bound(sums.begin(), sums.end(), point);
    const auto index =
        std::min<std::size_t>(static_cast<std::size_t>(found - sums.begin()), ranked.size() - 1);
    return ranked[index].second;
  }

  SampleOptions options_;
  std::mt19937_64 random_;
};

/// Of the token that follows `text`, of which the last tokens of a context count.
torch::Tensor next_logits(GptImpl& model, std::span<const std::uint8_t> text) {
  const auto context = static_cast<std::size_t>(model.options().context);
  const auto seen = text.last(std::min(context, text.size()));
  const torch::Tensor tokens =
      torch::tensor(std::vector<std::int64_t>(seen.begin(), seen.end()), torch::kInt64);
  return model.forward(tokens.unsqueeze(0))
      .select(0, 0)
      .select(0, -1)
      .to(torch::kCPU, torch::kFloat32);
}

}  // namespace

Result<std::vector<std::uint8_t>> sample(GptImpl& model, std::span<const std::uint8_t> prompt,
                                         const SampleOptions& options) {
  TRAINING_TRY(check(model, prompt, options));
  const Evaluating evaluating(model);
  Chooser chooser(options);
  std::vector<std::uint8_t> text(prompt.begin(), prompt.end());
  for (std::size_t i = 0; i < options.count; ++i) {
    const torch::Tensor logits = next_logits(model, text).contiguous();
    text.push_back(chooser.choose({logits.data_ptr<float>(), static_cast<std::size_t>(kBytes)}));
  }
  return std::vector<std::uint8_t>(text.begin() + static_cast<std::ptrdiff_t>(prompt.size()),
                                   text.end());
}

}  // namespace tutti::training
