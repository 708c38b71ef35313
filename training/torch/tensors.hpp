// Tensors of a module, and which of them are trained.
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

/// Of float32, bfloat16 and float16.
torch::ScalarType scalar_type(DataType type);

/// A tensor of that shape over memory that somebody else owns.
torch::Tensor view_of(std::span<std::byte> memory, at::IntArrayRef shape, DataType type);

/// Frozen parameters and buffers, in the order of registration, a tensor once.
std::vector<std::pair<std::string, torch::Tensor>> untrained_tensors(
    const torch::nn::Module& module);

/// What is gathered together.
struct PlannedUnits {
  std::vector<Plan::Unit> groups;
  std::vector<std::optional<GroupId>> group_of;  ///< by unit; none: it trains nothing of its own
  std::optional<GroupId> root;                   ///< what is in no unit, or in several
};
/// First "root", kept whole, then each of `units` that has parameters to itself; groups without
/// parameters are left out. kInvalidArgument: a unit that is not inside `module`, is inside
/// another, or is named twice.
Result<PlannedUnits> plan_units(const torch::nn::Module& module, const UnitModules& units,
                                const TrainedParameters& trained);

}  // namespace tutti::training
