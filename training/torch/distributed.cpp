#include "training/torch/distributed.hpp"

#include <optional>
#include <utility>

#include <fmt/ranges.h>
#include <torch/autograd.h>
#include <torch/utils.h>

#include "training/agreement.hpp"
#include "training/outcome.hpp"
#include "training/torch/evaluating.hpp"
#include "training/torch/failure.hpp"
#include "training/torch/gradient_hooks.hpp"
#include "training/torch/shared_state.hpp"
#include "training/torch/tensors.hpp"
#include "training/torch/unit_gates.hpp"

namespace tutti::training {

// ---- Making

struct DistributedModel::Parts {
  Parts(std::shared_ptr<torch::nn::Module> model, UnitModules parts_of_it, TrainedParameters of_it)
      : module(std::move(model)), units(std::move(parts_of_it)), trained(std::move(of_it)) {}
  ~Parts();
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  Status fill(bool has_values);
  void attach(const PlannedUnits& planned);
  void copy_what_changed();
  void forget_values();
  [[nodiscard]] torch::Tensor whole(ParameterId id) const;
  /// What `compute` gives; an error of it ends training on all ranks.
  template <class F>
  auto run(F&& compute) -> decltype(guarded(compute)) {
    auto outcome = guarded(compute);
    if (outcome) return outcome;
    return engine->give_up(std::move(outcome).error());
  }
  void use_root(Pass pass) const {
    if (root) gates->use(*root, pass);
  }
  void release_root(Pass pass) const {
    if (root) gates->release(*root, pass);
  }
  void run_backward(const torch::Tensor& loss, bool is_last, std::optional<double> gradient_scale);
  void take(ParameterId id, const torch::Tensor& gradient);

  std::shared_ptr<torch::nn::Module> module;
  UnitModules units;
  TrainedParameters trained;
  bool zeros_for_unused = false;
  std::unique_ptr<Engine> engine;
  std::optional<torch::Device> copies_on;  ///< where the module's parameters are copies
  std::uint64_t copied = 0;                ///< the version that whole parameters are copies of
  std::shared_ptr<UnitGates> gates;        ///< where parameters are in shards; else null
  std::optional<GroupId> root;             ///< then, where there is one
  std::unique_ptr<GradientHooks> hooks;
};

namespace {

struct Planned {
  TrainedParameters trained;
  PlannedUnits units;
  Plan plan;
};

Result<Planned> plan_for(const torch::nn::Module& module, const UnitModules& units,
                         const DistributedOptions& options, int ranks) {
  TRAINING_ASSIGN(TrainedParameters trained, trained_parameters(module, options));
  TRAINING_ASSIGN(PlannedUnits planned, plan_units(module, units, trained));
  TRAINING_ASSIGN(Plan plan,
                  Plan::create(trained.table, planned.groups, ranks, options.plan, options.order));
  return Planned{std::move(trained), std::move(planned), std::move(plan)};
}

/// Frozen parameters and buffers become what the model computes with.
void convert_untrained(const torch::nn::Module& module, DataType compute) {
  for (auto& [name, tensor] : untrained_tensors(module)) {
    if (tensor.is_floating_point()) tensor.set_data(tensor.to(scalar_type(compute)));
  }
}

}  // namespace

Result<std::unique_ptr<DistributedModel>> DistributedModel::create(
    std::shared_ptr<torch::nn::Module> module, const UnitModules& units,
    const DistributedOptions& options, Comm& world) {
  auto planned = plan_for(*module, units, options, world.size());
  TRAINING_TRY(agree(world, planned ? ok_status() : Status(planned.error())));
  TRAINING_TRY(broadcast_tensors(untrained_tensors(*module), world));
  TRAINING_ASSIGN(auto engine, Engine::create(planned->plan, options.optimizer, world));
  auto parts = std::make_unique<Parts>(std::move(module), units, std::move(planned->trained));
  parts->zeros_for_unused = options.zeros_for_unused;
  parts->engine = std::move(engine);
  const torch::Device device = parts->trained.device;
  if (options.copies_parameters || !device.is_cpu()) parts->copies_on = device;
  TRAINING_TRY(guarded([&] {
    must(parts->fill(world.rank() == 0));
    parts->attach(planned->units);
    if (options.plan.compute != DataType::kFloat32) {
      convert_untrained(*parts->module, options.plan.compute);
    }
  }));
  return std::unique_ptr<DistributedModel>(new DistributedModel(std::move(parts)));
}

DistributedModel::DistributedModel(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
DistributedModel::~DistributedModel() = default;

Status DistributedModel::Parts::fill(bool has_values) {
  const torch::NoGradGuard no_gradients;
  if (!has_values) {  // what rank 0 has comes in their place
    forget_values();
  }
  return engine->fill([&](ParameterId id, std::span<float> into) {
    view_of(std::as_writable_bytes(into), trained.table[id].shape, DataType::kFloat32)
        .copy_(trained.tensors[id]);
  });
}

void DistributedModel::Parts::forget_values() {
  for (torch::Tensor& tensor : trained.tensors) tensor.set_data(torch::empty({0}, trained.device));
}

/// Parameters become views of the engine's memory, or copies of it.
void DistributedModel::Parts::attach(const PlannedUnits& planned) {
  if (engine->plan().parameters_are_whole()) {
    for (ParameterId id = 0; id < trained.tensors.size(); ++id) {
      const torch::Tensor view = whole(id);
      trained.tensors[id].set_data(copies_on ? torch::empty_like(view, *copies_on) : view);
    }
    copy_what_changed();
  } else {
    gates = std::make_shared<UnitGates>(*engine, trained.tensors, copies_on);
    root = planned.root;
    for (std::size_t i = 0; i < units.size(); ++i) {
      if (!planned.group_of[i]) continue;
      units[i]->set_around(
          [this, unit = units[i].get(), id = *planned.group_of[i]](const torch::Tensor& input) {
            return gates->pass(id, *unit, input);
          });
    }
  }
  hooks = std::make_unique<GradientHooks>(
      trained.tensors,
      [this](ParameterId id, const torch::Tensor& gradient) { take(id, gradient); });
}

DistributedModel::Parts::~Parts() {
  hooks.reset();
  for (const auto& unit : units) unit->set_around({});
  forget_values();
}

/// A parameter as the engine has it, where parameters are whole.
torch::Tensor DistributedModel::Parts::whole(ParameterId id) const {
  return view_of(engine->parameter(id), trained.table[id].shape, engine->plan().options().compute);
}

/// Copies of whole parameters are up to date; those of units are made as these are gathered.
void DistributedModel::Parts::copy_what_changed() {
  if (!copies_on || gates || copied == engine->version()) return;
  const torch::NoGradGuard no_gradients;
  for (ParameterId id = 0; id < trained.tensors.size(); ++id) trained.tensors[id].copy_(whole(id));
  copied = engine->version();
}

// ---- Passes

Result<torch::Tensor> DistributedModel::forward(const std::function<torch::Tensor()>& compute) {
  return parts_->run([&] {
    parts_->copy_what_changed();
    parts_->use_root(Pass::kForward);
    torch::Tensor loss = compute();
    parts_->release_root(Pass::kForward);
    return loss;
  });
}

Status DistributedModel::evaluate(const std::function<void()>& compute) {
  return parts_->run([&] {
    const Evaluating evaluating(*parts_->module);
    parts_->copy_what_changed();
    parts_->use_root(Pass::kForward);
    compute();
    parts_->release_root(Pass::kForward);
  });
}

Status DistributedModel::backward(const torch::Tensor& loss, bool is_last,
                                  std::optional<double> gradient_scale) {
  return parts_->run([&] { parts_->run_backward(loss, is_last, gradient_scale); });
}

void DistributedModel::Parts::run_backward(const torch::Tensor& loss, bool is_last,
                                           std::optional<double> gradient_scale) {
  if (!loss.defined() || loss.numel() != 1 || !loss.requires_grad()) {
    throw Failure(failure(Code::kInvalidArgument,
                          "a backward pass begins at a loss, which is one number that depends on "
                          "parameters"));
  }
  must(engine->begin_backward(is_last, gradient_scale));
  if (gates) gates->begin_backward();
  use_root(Pass::kBackward);
  loss.backward();
  if (zeros_for_unused) {
    for (const ParameterId id : engine->missing()) must(engine->ready_without(id));
  }
  if (gates) gates->end_backward();
  must(engine->end_backward());
}

/// The gradient of one parameter, of this pass.
void DistributedModel::Parts::take(ParameterId id, const torch::Tensor& gradient) {
  const torch::NoGradGuard no_gradients;
  const auto place = must(engine->gradient(id));
  torch::Tensor into =
      view_of(place.data, trained.table[id].shape, engine->plan().options().reduce);
  const torch::Tensor dense = gradient.is_sparse() ? gradient.to_dense() : gradient;
  if (place.adds) {
    into.add_(dense.to(into.device()));
  } else {
    into.copy_(dense);
  }
  must(engine->ready(id));
  if (gates) gates->has_gradient(id);
}

Result<StepOutcome> DistributedModel::step(const StepOptions& options) {
  TRAINING_ASSIGN(const StepOutcome outcome, parts_->engine->step(options));
  TRAINING_TRY(parts_->run([&] { parts_->copy_what_changed(); }));
  return outcome;
}

Engine& DistributedModel::engine() { return *parts_->engine; }

// ---- Copies

namespace {

using Named = torch::OrderedDict<std::string, torch::Tensor>;

/// The tensor of another module that has this name and shape.
Result<torch::Tensor> same_in(const Named& tensors, const std::string& name,
                              at::IntArrayRef shape) {
  const torch::Tensor* const found = tensors.find(name);
  if (found != nullptr && found->sizes() == shape) return *found;
  return failure(Code::kInvalidArgument, "the model that is copied to has no '{}' of [{}]", name,
                 fmt::join(shape, ", "));
}

/// Trained parameters under each of their names.
std::vector<std::vector<std::string>> names_of(const torch::nn::Module& module,
                                               const std::vector<torch::Tensor>& tensors) {
  std::vector<std::vector<std::string>> names(tensors.size());
  for (const auto& item : module.named_parameters()) {
    for (std::size_t id = 0; id < tensors.size(); ++id) {
      if (item.value().is_same(tensors[id])) names[id].push_back(item.key());
    }
  }
  return names;
}

}  // namespace

Status DistributedModel::copy_to(torch::nn::Module* plain) {
  const torch::NoGradGuard no_gradients;
  const Named parameters = plain != nullptr ? plain->named_parameters() : Named();
  const auto names = names_of(*parts_->module, parts_->trained.tensors);
  Status copied = ok_status();  // the first error; all ranks go through all parameters
  for (ParameterId id = 0; id < names.size(); ++id) {
    TRAINING_ASSIGN(std::vector<float> values, parts_->engine->whole(id));
    const auto& shape = parts_->trained.table[id].shape;
    const torch::Tensor from =
        view_of(std::as_writable_bytes(std::span(values)), shape, DataType::kFloat32);
    for (const std::string& name : names[id]) {
      if (plain == nullptr || !copied) continue;
      const auto into = same_in(parameters, name, shape);
      copied = into ? guarded([&] { into->copy_(from); }) : Status(into.error());
    }
  }
  TRAINING_TRY(copied);
  if (plain == nullptr) return ok_status();
  Named others = plain->named_buffers();
  others.update(parameters);
  for (const auto& [name, tensor] : untrained_tensors(*parts_->module)) {
    TRAINING_ASSIGN(torch::Tensor into, same_in(others, name, tensor.sizes()));
    into.copy_(tensor);
  }
  return ok_status();
}

}  // namespace tutti::training
