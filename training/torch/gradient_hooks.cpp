#include "training/torch/gradient_hooks.hpp"

#include <memory>
#include <utility>

namespace tutti::training {
namespace {

class Hook : public torch::autograd::FunctionPostHook {
 public:
  Hook(ParameterId id, const torch::Tensor& tensor, const GradientHooks::Arrived& arrived)
      : id_(id), tensor_(tensor), arrived_(arrived) {}

  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& outputs,
      const torch::autograd::variable_list& /*inputs*/) override {
    const torch::Tensor gradient = std::exchange(tensor_.mutable_grad(), torch::Tensor());
    if (gradient.defined()) arrived_(id_, gradient);
    return outputs;
  }

 private:
  ParameterId id_;
  torch::Tensor tensor_;
  const GradientHooks::Arrived& arrived_;
};

}  // namespace

GradientHooks::GradientHooks(const std::vector<torch::Tensor>& tensors, Arrived arrived)
    : arrived_(std::move(arrived)) {
  for (ParameterId id = 0; id < tensors.size(); ++id) {
    torch::Tensor tensor = tensors[id];
    tensor.mutable_grad() = torch::Tensor();
    auto accumulator = torch::autograd::impl::grad_accumulator(tensor);
    const auto key = accumulator->add_post_hook(std::make_unique<Hook>(id, tensor, arrived_));
    hooked_.push_back({std::move(accumulator), key});
  }
}

GradientHooks::~GradientHooks() {
  for (const Hooked& hooked : hooked_) hooked.accumulator->del_post_hook(hooked.key);
}

}  // namespace tutti::training
