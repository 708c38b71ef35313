// The tensors of a module, and which of them are trained.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "training/plan.hpp"
#include "training/torch/distributed.hpp"
#include "tutti/types.hpp"

namespace tutti::training {

/// For float32, bfloat16 and float16.
torch::ScalarType scalar_type(DataType type);

/// A tensor of this shape over memory that it does not own.
torch::Tensor view_of(std::span<std::byte> memory, at::IntArrayRef shape, DataType type);

/// Frozen parameters and buffers, in registration order, each tensor once.
std::vector<std::pair<std::string, torch::Tensor>> untrained_tensors(
    const torch::nn::Module& module);

/// Parameters that are gathered together.
struct PlannedUnits {
  std::vector<Plan::Unit> groups;
  std::vector<std::optional<GroupId>>
      group_of;                 ///< by unit; empty: it has no trained parameters of its own
  std::optional<GroupId> root;  ///< parameters in no unit, or in several
};
/// First "root", which is kept whole, then each of `units` with parameters of its own. Groups
/// without parameters are left out. kInvalidArgument: a unit that is not inside `module`, is inside
/// another unit, or is named twice.
Result<PlannedUnits> plan_units(const torch::nn::Module& module, const UnitModules& units,
                                const TrainedParameters& trained);

}  // namespace tutti::training
