#include "training/torch/recompute.hpp"

#include <memory>

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace tutti::training {
namespace {

torch::Tensor leaf(std::initializer_list<std::int64_t> shape) {
  return torch::randn(shape).requires_grad_(true);
}

/// Counts how often a gradient arrives at a leaf.
struct CountArrivals : torch::autograd::FunctionPostHook {
  explicit CountArrivals(int& count) : count(count) {}
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& outputs,
      const torch::autograd::variable_list& /*inputs*/) override {
    ++count;
    return outputs;
  }
  int& count;
};

/// The gradients of `leaves` after a backward pass from the sum of `output`.
std::vector<torch::Tensor> gradients(const torch::Tensor& output,
                                     const std::vector<torch::Tensor>& leaves) {
  output.sum().backward();
  std::vector<torch::Tensor> found;
  for (torch::Tensor tensor : leaves) {
    found.push_back(tensor.grad());
    tensor.mutable_grad() = torch::Tensor();
  }
  return found;
}

TEST(Recomputed, GivesTheSameBitsAsWithout) {
  torch::manual_seed(1);
  const torch::Tensor input = leaf({5, 8}), weight = leaf({8, 8});
  const Compute compute = [&](const std::vector<torch::Tensor>& inputs) {
    return torch::tanh(inputs[0].mm(weight)).mm(weight.t());  // the weight twice
  };
  const torch::Tensor plain = compute({input}), twice = recomputed(compute, {input}, {weight});
  EXPECT_TRUE(plain.equal(twice));
  const auto expected = gradients(plain, {input, weight});
  const auto found = gradients(twice, {input, weight});
  EXPECT_TRUE(expected[0].equal(found[0]));
  EXPECT_TRUE(expected[1].equal(found[1]));
}

TEST(Recomputed, DropsTheSameElementsTwiceAndGoesOnWithTheGenerator) {
  const torch::Tensor input = leaf({100});
  const Compute compute = [](const std::vector<torch::Tensor>& inputs) {
    return torch::dropout(inputs[0], 0.5, true);
  };
  const auto run = [&](bool again) {
    torch::manual_seed(2);
    const torch::Tensor output = again ? recomputed(compute, {input}, {}) : compute({input});
    const torch::Tensor between = torch::rand({3});
    const torch::Tensor gradient = gradients(output, {input})[0];
    return std::vector<torch::Tensor>{output, between, gradient, torch::rand({3})};
  };
  const auto expected = run(false), found = run(true);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(expected[i].equal(found[i])) << i;
}

TEST(Recomputed, KeepsItsInputsAlone) {
  std::weak_ptr<int> inside;
  const torch::Tensor input = leaf({4});
  const torch::Tensor output = recomputed(
      [&](const std::vector<torch::Tensor>& inputs) {
        auto life = std::make_shared<int>();
        inside = life;
        const torch::Tensor middle = inputs[0].exp();  // which exp's backward would keep
        return torch::from_blob(middle.data_ptr(), {4}, [life, middle](void*) {}) * middle;
      },
      {input}, {});
  EXPECT_TRUE(inside.expired());
  EXPECT_TRUE(output.requires_grad());
}

TEST(Recomputed, BringsEachParameterItsGradientOnceAPass) {
  const torch::Tensor input = leaf({3, 4}), weight = leaf({4, 4});
  int arrivals = 0;
  const auto accumulator = torch::autograd::impl::grad_accumulator(weight);
  accumulator->add_post_hook(std::make_unique<CountArrivals>(arrivals));
  const Compute compute = [&](const std::vector<torch::Tensor>& inputs) {
    return inputs[0].mm(weight).mm(weight);
  };
  torch::Tensor output = input;
  for (int i = 0; i < 3; ++i) output = recomputed(compute, {output}, {weight});
  output.sum().backward();
  EXPECT_EQ(arrivals, 1);
}

TEST(Recomputed, GivesNothingToWhatNeedsNoGradientOrIsNotUsed) {
  const torch::Tensor constant = torch::ones({2}), used = leaf({2}), unused = leaf({2});
  const torch::Tensor output =
      recomputed([&](const std::vector<torch::Tensor>& inputs) { return inputs[0] * used; },
                 {constant}, {used, unused});
  const auto found = gradients(output, {used, unused});
  EXPECT_TRUE(found[0].equal(torch::ones({2})));
  EXPECT_FALSE(found[1].defined());
}

TEST(Recomputed, RecordsNothingWithoutGradients) {
  const torch::NoGradGuard no_gradients;
  const torch::Tensor input = torch::ones({2}).requires_grad_(true);
  const torch::Tensor output = recomputed(
      [](const std::vector<torch::Tensor>& inputs) { return inputs[0] * 2; }, {input}, {});
  EXPECT_FALSE(output.requires_grad());
}

}  // namespace
}  // namespace tutti::training
