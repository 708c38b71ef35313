#include "training/torch/tensors.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "training/outcome.hpp"
#include "training/torch/failure.hpp"

namespace tutti::training {
namespace {

/// Which tensor it is, whatever its name.
const void* identity(const torch::Tensor& tensor) { return tensor.unsafeGetTensorImpl(); }

Status check_trained(const std::string& name, const torch::Tensor& parameter) {
  const torch::Device device = parameter.device();
  if (parameter.scalar_type() == torch::kFloat32 && parameter.layout() == torch::kStrided &&
      (device.is_cpu() || device.is_cuda())) {
    return ok_status();
  }
  return failure(Code::kInvalidArgument,
                 "parameter '{}' is of {}: what is trained is dense, float32, and of the CPU or of "
                 "CUDA",
                 name, parameter.toString());
}

/// Where all parameters are; the CPU where there are none.
Result<torch::Device> device_of(const ParameterTable& table,
                                const std::vector<torch::Tensor>& tensors) {
  for (ParameterId id = 1; id < tensors.size(); ++id) {
    if (tensors[id].device() == tensors[0].device()) continue;
    return failure(Code::kInvalidArgument,
                   "parameter '{}' is on {} and '{}' on {}: move the module to one device",
                   table[0].name, tensors[0].device().str(), table[id].name,
                   tensors[id].device().str());
  }
  return tensors.empty() ? torch::Device(torch::kCPU) : tensors[0].device();
}

/// Two tensors that are one memory would be torn apart.
class Memories {
 public:
  Status add(const std::string& name, const torch::Tensor& parameter) {
    const auto [found, is_new] = names_.emplace(parameter.data_ptr(), name);
    if (is_new) return ok_status();
    return failure(Code::kInvalidArgument,
                   "parameters '{}' and '{}' are two tensors of one memory: register the same "
                   "tensor under both names",
                   found->second, name);
  }

 private:
  std::map<const void*, std::string> names_;
};

}  // namespace

torch::ScalarType scalar_type(DataType type) {
  if (type == DataType::kBfloat16) return torch::kBFloat16;
  return type == DataType::kFloat16 ? torch::kFloat16 : torch::kFloat32;
}

torch::Tensor view_of(std::span<std::byte> memory, at::IntArrayRef shape, DataType type) {
  return torch::from_blob(memory.data(), shape, torch::TensorOptions(scalar_type(type)));
}

Status move_to(torch::nn::Module& module, torch::Device device) {
  return guarded([&] { module.to(device); });
}

Result<TrainedParameters> trained_parameters(const torch::nn::Module& module,
                                             const DistributedOptions& options) {
  std::vector<Parameter> parameters;
  std::vector<torch::Tensor> tensors;
  std::set<const void*> known;
  Memories memories;
  for (const auto& item : module.named_parameters()) {
    const torch::Tensor& tensor = item.value();
    if (!tensor.requires_grad() || !known.insert(identity(tensor)).second) continue;
    TRAINING_TRY(check_trained(item.key(), tensor));
    TRAINING_TRY(memories.add(item.key(), tensor));
    const bool decays = options.decays ? options.decays(item.key(), tensor) : tensor.dim() >= 2;
    parameters.push_back({item.key(), tensor.sizes().vec(), decays});
    tensors.push_back(tensor);
  }
  TRAINING_ASSIGN(ParameterTable table, ParameterTable::create(std::move(parameters)));
  TRAINING_ASSIGN(const torch::Device device, device_of(table, tensors));
  return TrainedParameters{std::move(table), std::move(tensors), device};
}

std::vector<std::pair<std::string, torch::Tensor>> untrained_tensors(
    const torch::nn::Module& module) {
  std::vector<std::pair<std::string, torch::Tensor>> found;
  std::set<const void*> known;
  const auto add = [&](const auto& items) {
    for (const auto& item : items) {
      const torch::Tensor& tensor = item.value();
      if (!tensor.defined() || tensor.requires_grad()) continue;
      if (known.insert(identity(tensor)).second) found.emplace_back(item.key(), tensor);
    }
  };
  add(module.named_parameters());
  add(module.named_buffers());
  return found;
}

namespace {

/// Names of the modules inside one.
std::map<const torch::nn::Module*, std::string> names_inside(const torch::nn::Module& module) {
  std::map<const torch::nn::Module*, std::string> names;
  for (const auto& item : module.named_modules("", /*include_self=*/false)) {
    names.emplace(item.value().get(), item.key());
  }
  return names;
}

Status check_units(const UnitModules& units,
                   const std::map<const torch::nn::Module*, std::string>& names) {
  std::map<const torch::nn::Module*, std::string> inside;  // of units, by the unit's name
  for (const auto& unit : units) {
    const auto found = names.find(unit.get());
    if (found == names.end()) {
      return failure(Code::kInvalidArgument, "unit {} of {} is no module inside the model",
                     &unit - units.data(), units.size());
    }
    for (const auto& part : unit->modules()) {
      const auto [other, is_new] = inside.emplace(part.get(), found->second);
      if (is_new) continue;
      return failure(Code::kInvalidArgument,
                     "unit '{}' and unit '{}' have '{}' in common: units are apart from each other",
                     other->second, found->second, names.at(part.get()));
    }
  }
  return ok_status();
}

/// By ParameterId: the one unit that has it; none where no unit has it, or several.
std::vector<std::optional<std::size_t>> owners(const UnitModules& units,
                                               const torch::nn::Module& module,
                                               const TrainedParameters& trained) {
  std::map<const void*, std::set<std::size_t>> uses;
  constexpr std::size_t kOutside = ~std::size_t{0};
  std::map<const torch::nn::Module*, std::size_t> unit_of;
  for (std::size_t i = 0; i < units.size(); ++i) {
    for (const auto& part : units[i]->modules()) unit_of.emplace(part.get(), i);
  }
  const auto add = [&](const torch::nn::Module& holder) {
    const auto unit = unit_of.find(&holder);
    for (const auto& item : holder.named_parameters(/*recurse=*/false)) {
      uses[identity(item.value())].insert(unit == unit_of.end() ? kOutside : unit->second);
    }
  };
  add(module);
  for (const auto& part : module.modules(/*include_self=*/false)) add(*part);
  std::vector<std::optional<std::size_t>> found;
  for (const torch::Tensor& tensor : trained.tensors) {
    const auto& of = uses[identity(tensor)];
    const bool is_of_one = of.size() == 1 && *of.begin() != kOutside;
    found.push_back(is_of_one ? std::optional(*of.begin()) : std::nullopt);
  }
  return found;
}

}  // namespace

Result<PlannedUnits> plan_units(const torch::nn::Module& module, const UnitModules& units,
                                const TrainedParameters& trained) {
  const auto names = names_inside(module);
  TRAINING_TRY(check_units(units, names));
  Group root{"root", {}};
  std::vector<Group> of_units;
  for (const auto& unit : units) of_units.push_back({names.at(unit.get()), {}});
  const auto owner = owners(units, module, trained);
  for (ParameterId id = 0; id < owner.size(); ++id) {
    (owner[id] ? of_units[*owner[id]] : root).parameters.push_back(id);
  }
  PlannedUnits planned;
  const auto add = [&](Group group, bool keeps_whole) -> std::optional<GroupId> {
    if (group.parameters.empty()) return std::nullopt;
    planned.groups.push_back({std::move(group), keeps_whole});
    return static_cast<GroupId>(planned.groups.size() - 1);
  };
  planned.root = add(std::move(root), true);
  for (Group& group : of_units) planned.group_of.push_back(add(std::move(group), false));
  return planned;
}

}  // namespace tutti::training
