#include "training/torch/recompute.hpp"

#include <mutex>
#include <optional>
#include <utility>

#include <ATen/Context.h>
#include <torch/autograd.h>

namespace tutti::training {
namespace {

/// Where the CPU's generator of random numbers is, and that of the device that computes. Value.
class RandomState {
 public:
  explicit RandomState(torch::Device device) : devices_{torch::kCPU} {
    if (!device.is_cpu()) devices_.push_back(device);
    for (const torch::Device of : devices_) {
      at::Generator generator = at::globalContext().defaultGenerator(of);
      const std::lock_guard lock(generator.mutex());
      states_.push_back(generator.get_state());
    }
  }
  void restore() const {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      at::Generator generator = at::globalContext().defaultGenerator(devices_[i]);
      const std::lock_guard lock(generator.mutex());
      generator.set_state(states_[i]);
    }
  }
  [[nodiscard]] torch::Device device() const { return devices_.back(); }

 private:
  std::vector<torch::Device> devices_;
  std::vector<torch::Tensor> states_;  ///< by device
};

/// Goes back to an earlier state while it lives.
class RandomNumbersOf {
 public:
  explicit RandomNumbersOf(const RandomState& earlier) : now_(earlier.device()) {
    earlier.restore();
  }
  ~RandomNumbersOf() { now_.restore(); }
  RandomNumbersOf(const RandomNumbersOf&) = delete;
  RandomNumbersOf& operator=(const RandomNumbersOf&) = delete;

 private:
  RandomState now_;
};

/// That of the first tensor.
torch::Device device_of(at::TensorList tensors) {
  return tensors.empty() ? torch::Device(torch::kCPU) : tensors[0].device();
}

/// What a call needs for its backward pass, besides the tensors that autograd keeps.
struct Call : torch::CustomClassHolder {
  Compute compute;
  std::size_t inputs = 0;             ///< of the tensors; the others are parameters
  std::optional<RandomState> random;  ///< before it
};

/// Those that need gradients, in their order.
std::vector<torch::Tensor> with_gradient(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> found;
  for (const torch::Tensor& tensor : tensors) {
    if (tensor.requires_grad()) found.push_back(tensor);
  }
  return found;
}

class Recomputed : public torch::autograd::Function<Recomputed> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const c10::intrusive_ptr<Call>& call, at::TensorList tensors) {
    call->random.emplace(device_of(tensors));
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    context->save_for_backward(tensors.vec());
    return call->compute(tensors.slice(0, call->inputs).vec());
  }

  static std::vector<torch::Tensor> backward(torch::autograd::AutogradContext* context,
                                             const std::vector<torch::Tensor>& gradients) {
    const auto capsule = context->saved_data["call"].toCapsule();
    const auto& call = static_cast<const Call&>(*capsule);
    std::vector<torch::Tensor> tensors = context->get_saved_variables();
    // A graph of its own: parameters are its leaves, but collect nothing, since only what is asked
    // for is computed.
    std::vector<torch::Tensor> inputs;
    for (std::size_t i = 0; i < call.inputs; ++i) {
      tensors[i] = tensors[i].detach().requires_grad_(tensors[i].requires_grad());
      inputs.push_back(tensors[i]);
    }
    torch::Tensor output;
    {
      const torch::AutoGradMode with_graph(true);
      const RandomNumbersOf same(*call.random);
      output = call.compute(inputs);
    }
    const auto found = torch::autograd::grad({output}, with_gradient(tensors), {gradients[0]},
                                             /*retain_graph=*/false, /*create_graph=*/false,
                                             /*allow_unused=*/true);
    std::vector<torch::Tensor> answer(1 + tensors.size());  // the first is the call's: none
    auto next = found.begin();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].requires_grad()) answer[1 + i] = *next++;
    }
    return answer;
  }
};

}  // namespace

torch::Tensor recomputed(const Compute& compute, const std::vector<torch::Tensor>& inputs,
                         const std::vector<torch::Tensor>& parameters) {
  if (!torch::GradMode::is_enabled()) return compute(inputs);
  auto call = c10::make_intrusive<Call>();
  call->compute = compute;
  call->inputs = inputs.size();
  std::vector<torch::Tensor> tensors = inputs;
  tensors.insert(tensors.end(), parameters.begin(), parameters.end());
  return Recomputed::apply(call, at::TensorList(tensors));
}

}  // namespace tutti::training
