#include "training/torch/unit_gates.hpp"

#include <functional>
#include <utility>

#include <torch/autograd.h>

#include "training/numbers.hpp"
#include "training/outcome.hpp"
#include "training/torch/failure.hpp"
#include "training/torch/tensors.hpp"

namespace tutti::training {
namespace {

struct Action : torch::CustomClassHolder {
  explicit Action(std::function<void()> does) : act(std::move(does)) {}
  std::function<void()> act;
};

/// Does something in the backward pass, and hands the gradient on.
class Gate : public torch::autograd::Function<Gate> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& tensor,
                               const c10::intrusive_ptr<Action>& action) {
    context->saved_data["action"] = c10::IValue::make_capsule(action);
    return tensor.detach();  // an alias, which the caller may change in place, as any result
  }
  static std::vector<torch::Tensor> backward(torch::autograd::AutogradContext* context,
                                             const std::vector<torch::Tensor>& gradients) {
    const auto action = context->saved_data["action"].toCapsule();
    static_cast<const Action&>(*action).act();
    return {gradients[0], torch::Tensor()};
  }
};

/// An alias of a tensor, behind a gate.
torch::Tensor gated(const torch::Tensor& tensor, std::function<void()> act) {
  return Gate::apply(tensor, c10::make_intrusive<Action>(std::move(act)));
}

/// A copy that lasts as long as the pointer.
c10::DataPtr copy_on(torch::Device device, std::span<std::byte> memory) {
  const auto size = static_cast<std::int64_t>(memory.size());
  auto copy = std::make_unique<torch::Tensor>(
      torch::from_blob(memory.data(), {size}, torch::kUInt8)
          .to(device, torch::kUInt8, /*non_blocking=*/false, /*copy=*/true));
  void* const data = copy->data_ptr();
  return {data, copy.release(), [](void* tensor) { delete static_cast<torch::Tensor*>(tensor); },
          device};
}

}  // namespace

UnitGates::UnitGates(Engine& engine, const std::vector<torch::Tensor>& tensors,
                     std::optional<torch::Device> copies_on)
    : engine_(engine), copies_on_(copies_on), units_(engine.layout().groups().size()) {
  const FlatLayout& layout = engine.layout();
  const DataType type = engine.plan().options().compute;
  for (GroupId unit = 0; unit < units_.size(); ++unit) {
    units_[unit].storage = c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(),
        static_cast<std::int64_t>(layout.padded(unit) * bytes_of(type)), shown({}),
        /*allocator=*/nullptr, /*resizable=*/false);
    for (const ParameterId id : layout.groups()[unit].parameters) {
      const torch::Tensor view = torch::empty(
          {0}, torch::TensorOptions(scalar_type(type)).device(units_[unit].storage->device()));
      torch::Tensor tensor = tensors[id];
      tensor.set_data(view.set_(c10::Storage(units_[unit].storage),
                                static_cast<std::int64_t>(layout.offset_of(id)),
                                layout.table()[id].shape));
    }
  }
}

/// What a unit's storage points to while the unit is in `memory`; without memory, nothing.
c10::DataPtr UnitGates::shown(std::span<std::byte> memory) const {
  const torch::Device device = copies_on_.value_or(torch::kCPU);
  if (memory.empty()) return {nullptr, device};
  return copies_on_ ? copy_on(device, memory) : c10::DataPtr(memory.data(), device);
}

void UnitGates::use(GroupId unit, Pass pass) {
  State& state = units_[unit];
  if (state.uses == 0) {
    state.storage->set_data_ptr(shown(must(engine_.use(unit, pass))));
  }
  ++state.uses;
}

void UnitGates::release(GroupId unit, Pass pass) {
  State& state = units_[unit];
  if (--state.uses > 0) return;
  state.storage->set_data_ptr(shown({}));
  must(engine_.release(unit, pass));
}

torch::Tensor UnitGates::pass(GroupId id, UnitModule& unit, const torch::Tensor& input) {
  const auto opened = [gates = weak_from_this()] {
    auto living = gates.lock();
    if (!living) {
      throw Failure(failure(Code::kInvalidUsage,
                            "a backward pass through a model that is no longer distributed"));
    }
    return living;
  };
  const bool has_leave = torch::GradMode::is_enabled() && input.requires_grad();
  use(id, Pass::kForward);
  const torch::Tensor output =
      unit.run(has_leave ? gated(input, [=] { opened()->release(id, Pass::kBackward); }) : input);
  release(id, Pass::kForward);
  if (!torch::GradMode::is_enabled() || !output.requires_grad()) return output;
  return gated(output, [=] { opened()->enter(id, has_leave); });
}

void UnitGates::enter(GroupId unit, bool has_leave) {
  use(unit, Pass::kBackward);
  if (!has_leave) ++units_[unit].ends_with_gradients;
}

void UnitGates::begin_backward() {
  for (GroupId unit = 0; unit < units_.size(); ++unit) {
    units_[unit].without_gradient = engine_.layout().groups()[unit].parameters.size();
  }
}

void UnitGates::has_gradient(ParameterId id) {
  const GroupId unit = engine_.layout().group_of(id);
  State& state = units_[unit];
  if (--state.without_gradient > 0) return;
  for (; state.ends_with_gradients > 0; --state.ends_with_gradients) {
    release(unit, Pass::kBackward);
  }
}

void UnitGates::end_backward() {
  for (GroupId unit = 0; unit < units_.size(); ++unit) {
    units_[unit].ends_with_gradients = 0;
    while (units_[unit].uses > 0) release(unit, Pass::kBackward);
  }
}

}  // namespace tutti::training
