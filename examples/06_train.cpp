// Trains a model of LibTorch over ranks, each of which keeps a part of it (ZeRO-3).
//
//   tutti run -n 2 -- ./06_train
#include <cstdio>

#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include "training/torch/distributed.hpp"

namespace {

using namespace tutti::training;

/// A layer with a way around it. Its parameters are gathered before it runs, and given up after.
struct Layer : UnitModule {
  explicit Layer(int width)
      : up(register_module("up", torch::nn::Linear(width, 4 * width))),
        down(register_module("down", torch::nn::Linear(4 * width, width))) {}
  torch::Tensor compute(const torch::Tensor& input) override {
    return input + down(torch::tanh(up(input)));
  }
  torch::nn::Linear up, down;
};

/// From a number to a number. What is in no unit stays whole for the length of a step.
struct Model : torch::nn::Module {
  Model() {
    for (int i = 0; i < 3; ++i) {
      layers.push_back(register_module("layer" + std::to_string(i), std::make_shared<Layer>(32)));
    }
  }
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor hidden = in(x);
    for (const auto& layer : layers) hidden = layer->forward(hidden);
    return out(hidden);
  }
  torch::nn::Linear in = register_module("in", torch::nn::Linear(1, 32));
  UnitModules layers;
  torch::nn::Linear out = register_module("out", torch::nn::Linear(32, 1));
};

constexpr int kSamples = 64;  // of a rank, in each step
constexpr int kSteps = 300;

tutti::Status train(tutti::Comm& world, double& mean_error) {
  const auto model = std::make_shared<Model>();
  auto trained = DistributedModel::create(
      model, model->layers,
      {.plan = {.strategy = Strategy::kZero3}, .optimizer = AdamW{.weight_decay = 0}}, world);
  if (!trained) return trained.error();
  const double samples = kSamples * world.size();
  for (int step = 0; step < kSteps; ++step) {
    const torch::Tensor x = torch::rand({kSamples, 1}) * 6 - 3;
    auto loss =
        (*trained)->forward([&] { return (model->forward(x) - torch::sin(x)).square().sum(); });
    if (!loss) return loss.error();
    if (auto done = (*trained)->backward(*loss, /*is_last=*/true); !done) return done;
    const auto stepped = (*trained)->step({.gradient_scale = 1 / samples, .learning_rate = 3e-3});
    if (!stepped) return stepped.error();
    mean_error = loss->item<double>() / kSamples;
    if (world.rank() == 0 && step % 50 == 0) {
      std::printf("step %d: error %.4f, norm %.4f\n", step, mean_error, stepped->norm);
    }
  }
  return tutti::ok_status();
}

}  // namespace

int main() {
  auto world = tutti::Comm::from_environment();
  if (!world) {
    std::fprintf(stderr, "%s\n", world.error().what.c_str());
    return 1;
  }
  set_compute_threads(1);
  torch::manual_seed(static_cast<std::uint64_t>(world->rank()));
  double mean_error = 0;
  if (const tutti::Status done = train(*world, mean_error); !done) {
    std::fprintf(stderr, "%s\n", done.error().what.c_str());
    return 1;
  }
  std::printf("rank %d of %d ends with an error of %.5f\n", world->rank(), world->size(),
              mean_error);
  return mean_error < 0.01 ? 0 : 1;
}
