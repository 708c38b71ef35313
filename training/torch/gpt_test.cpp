#include "training/torch/gpt.hpp"

#include <cmath>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/utils.h>

namespace tutti::training {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const GptOptions kSmall = {.layers = 2, .heads = 2, .width = 16, .context = 12};

Gpt small(const GptOptions& options = kSmall) { return *make_gpt(options, 1); }

torch::Tensor some_tokens(std::int64_t batch, std::int64_t length, std::int64_t seed = 0) {
  return (torch::arange(batch * length).view({batch, length}) * 37 + seed * 101) % 256;
}

std::vector<std::uint8_t> bytes(const std::string& text) { return {text.begin(), text.end()}; }

std::string continued(Gpt& model, const std::string& prompt, const SampleOptions& options) {
  const auto added = sample(*model, bytes(prompt), options);
  return added ? std::string(added->begin(), added->end()) : added.error().what;
}

TEST(Gpt, HasAsManyParametersAsItSays) {
  for (const bool tied : {true, false}) {
    GptOptions options = kSmall;
    options.tied = tied;
    std::int64_t count = 0;
    for (const auto& parameter : small(options)->parameters()) count += parameter.numel();
    EXPECT_EQ(parameter_count(options), count);
  }
}

TEST(Gpt, NamesItsParametersInTheOrderOfTheirUse) {
  GptOptions options = kSmall;
  options.layers = 1;
  options.tied = false;
  EXPECT_THAT(small(options)->named_parameters().keys(),
              ElementsAre("tokens.weight", "positions.weight", "blocks.0.attention_norm.weight",
                          "blocks.0.attention_norm.bias", "blocks.0.attention.qkv.weight",
                          "blocks.0.attention.qkv.bias", "blocks.0.attention.output.weight",
                          "blocks.0.attention.output.bias", "blocks.0.mlp_norm.weight",
                          "blocks.0.mlp_norm.bias", "blocks.0.mlp.up.weight",
                          "blocks.0.mlp.up.bias", "blocks.0.mlp.down.weight",
                          "blocks.0.mlp.down.bias", "norm.weight", "norm.bias", "head.weight"));
}

TEST(Gpt, StartsWithTheValuesOfItsSeed) {
  const Gpt one = *make_gpt(kSmall, 5), same = *make_gpt(kSmall, 5), other = *make_gpt(kSmall, 6);
  const auto values = [](const Gpt& model) { return model->named_parameters(); };
  for (const auto& parameter : values(one)) {
    EXPECT_TRUE(parameter.value().equal(values(same)[parameter.key()])) << parameter.key();
  }
  EXPECT_FALSE(values(one)["tokens.weight"].equal(values(other)["tokens.weight"]));
}

TEST(Gpt, StartsProjectionsIntoTheResidualStreamSmaller) {
  const GptOptions wide = {.layers = 2, .heads = 2, .width = 128, .context = 12};
  const auto values = small(wide)->named_parameters();
  EXPECT_NEAR(values["tokens.weight"].std().item<double>(), 0.02, 0.0005);
  EXPECT_NEAR(values["blocks.1.mlp.up.weight"].std().item<double>(), 0.02, 0.0005);
  EXPECT_NEAR(values["blocks.1.mlp.down.weight"].std().item<double>(), 0.01, 0.0005);
  EXPECT_NEAR(values["blocks.1.attention.output.weight"].std().item<double>(), 0.01, 0.0005);
}

TEST(Gpt, KnowsNothingAtFirst) {
  Gpt model = small();
  const torch::Tensor tokens = some_tokens(3, 12), targets = some_tokens(3, 12, 1);
  EXPECT_NEAR(model->loss(tokens, targets).item<double>() / 36, std::log(256), 0.1);
}

TEST(Gpt, LossIsTheSumOverAllTokens) {
  Gpt model = small();
  const torch::Tensor tokens = some_tokens(2, 9), targets = some_tokens(2, 9, 1);
  const torch::Tensor chances = model->forward(tokens).log_softmax(-1);
  const double expected = -chances.gather(-1, targets.unsqueeze(-1)).sum().item<double>();
  EXPECT_NEAR(model->loss(tokens, targets).item<double>(), expected, 1e-3);
}

TEST(Gpt, ShowsNoTokenALaterOne) {
  Gpt model = small();
  torch::Tensor tokens = some_tokens(1, 12);
  const torch::Tensor before = model->forward(tokens);
  tokens[0][7] = 4;
  const torch::Tensor after = model->forward(tokens);
  EXPECT_TRUE(before.narrow(1, 0, 7).equal(after.narrow(1, 0, 7)));
  EXPECT_FALSE(before.narrow(1, 7, 1).equal(after.narrow(1, 7, 1)));
}

TEST(Gpt, AttendsByTheFormulaOfThePaper) {
  // One block whose MLP and output projection change nothing, so that what it adds is attention.
  const GptOptions options = {.layers = 1, .heads = 2, .width = 8, .context = 5};
  Gpt model = small(options);
  const torch::NoGradGuard no_gradients;
  auto values = model->named_parameters();
  values["blocks.0.attention.output.weight"].copy_(torch::eye(8));
  values["blocks.0.attention.qkv.weight"].mul_(50);
  values["blocks.0.mlp.down.weight"].zero_();
  const torch::Tensor input = torch::randn({1, 5, 8});
  const torch::Tensor added = model->units()[0]->forward(input) - input;
  const torch::Tensor qkv =
      torch::layer_norm(input[0], {8}).mm(values["blocks.0.attention.qkv.weight"].t());
  for (int head = 0; head < 2; ++head) {
    const auto part = [&](int which) { return qkv.narrow(1, 8 * which + 4 * head, 4); };
    for (int query = 0; query < 5; ++query) {
      const torch::Tensor keys = part(1).narrow(0, 0, query + 1);
      const torch::Tensor weights = keys.mv(part(0)[query]).div(2).softmax(0);
      const torch::Tensor expected = part(2).narrow(0, 0, query + 1).t().mv(weights);
      EXPECT_TRUE(added[0][query].narrow(0, 4 * head, 4).allclose(expected, 1e-4, 1e-5))
          << "head " << head << ", query " << query;
    }
  }
}

TEST(Gpt, GivesTheSameBitsWhereBlocksAreRecomputed) {
  GptOptions options = kSmall;
  options.dropout = 0.1;
  const auto gradients = [&](bool recomputes) {
    Gpt model = small(options);
    model->set_recomputes(recomputes);
    torch::manual_seed(3);
    model->loss(some_tokens(2, 12), some_tokens(2, 12, 1)).backward();
    std::vector<torch::Tensor> found;
    for (const auto& parameter : model->parameters()) found.push_back(parameter.grad());
    return found;
  };
  const auto kept = gradients(false), recomputed = gradients(true);
  for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(kept[i].equal(recomputed[i])) << i;
}

TEST(Gpt, LearnsATextAndSaysIt) {
  Gpt model = small();
  const std::string text = "round and round ";  // 16 bytes
  const std::vector<std::uint8_t> twice = bytes(text + text);
  const torch::Tensor all =
      torch::tensor(std::vector<std::int64_t>(twice.begin(), twice.end()), torch::kInt64);
  std::vector<torch::Tensor> inputs, targets;
  for (std::int64_t start = 0; start < 16; ++start) {
    inputs.push_back(all.narrow(0, start, 12));
    targets.push_back(all.narrow(0, start + 1, 12));
  }
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
  for (int step = 0; step < 100; ++step) {
    optimizer.zero_grad();
    (model->loss(torch::stack(inputs), torch::stack(targets)) / (16 * 12)).backward();
    optimizer.step();
  }
  EXPECT_EQ(continued(model, "round and r", {.count = 21, .temperature = 0}),
            "ound round and round ");
}

TEST(Sample, DrawsTheSameWithTheSameSeedAndOtherwiseWithAnother) {
  Gpt model = small();
  const auto drawn = [&](std::uint64_t seed) {
    return continued(model, "x", {.count = 30, .temperature = 1, .seed = seed});
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
  EXPECT_EQ(drawn(1).size(), 30);
}

TEST(Sample, TakesTheLikeliestOfOneOrWithoutTemperature) {
  Gpt model = small();
  EXPECT_EQ(continued(model, "abc", {.count = 20, .temperature = 5, .top_k = 1}),
            continued(model, "abc", {.count = 20, .temperature = 0}));
}

TEST(Sample, LeavesTheModelAsItWas) {
  Gpt model = small();
  model->train();
  (void)continued(model, "abc", {.count = 1});
  EXPECT_TRUE(model->is_training());
}

TEST(Sample, SaysWhatIsWrongWithItsOptions) {
  Gpt model = small();
  EXPECT_THAT(continued(model, "", {}), HasSubstr("a prompt of at least one byte"));
  EXPECT_THAT(continued(model, "a", {.temperature = -1}), HasSubstr("temperature -1"));
  EXPECT_THAT(continued(model, "a", {.top_k = -1}), HasSubstr("top_k -1"));
  GptOptions other = kSmall;
  other.vocabulary = 100;
  Gpt no_bytes = small(other);
  EXPECT_THAT(continued(no_bytes, "a", {}), HasSubstr("not 100"));
}

TEST(GptOptions, AreCheckedAndNamed) {
  const auto complaint = [](const GptOptions& options) {
    const auto made = make_gpt(options, 0);
    return made ? std::string() : made.error().what;
  };
  EXPECT_THAT(complaint({.layers = 0}), HasSubstr("number of layers 0"));
  EXPECT_THAT(complaint({.heads = 3}), HasSubstr("width 128 is no multiple of its 3 heads"));
  EXPECT_THAT(complaint({.context = 1'000'000'000}), HasSubstr("context 1000000000"));
  EXPECT_THAT(complaint({.dropout = 1}), HasSubstr("dropout 1"));
  EXPECT_EQ(complaint(kSmall), "");
}

}  // namespace
}  // namespace tutti::training
