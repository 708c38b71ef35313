// The shape of the trained model and its parameters, without a tensor library: for predictions, and
// to describe checkpoints. The model itself is in training/torch/gpt.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "training/plan.hpp"
#include "tutti/error.hpp"

namespace tutti::trainer {

/// Of a transformer over bytes whose output weights are its embedding. Value.
struct ModelShape {
  std::int64_t layers = 4, heads = 4, width = 128, context = 128;
  friend bool operator==(const ModelShape&, const ModelShape&) = default;
};
inline constexpr std::int64_t kVocabulary = 256;

/// "1m", "3m", "10m", "124m": GPT-2's small one, which has 86 million parameters over bytes.
std::vector<std::string> size_names();
ModelShape shape_of_size(std::string_view name);

/// kInvalidArgument names the option that is wrong.
Status check(const ModelShape& shape);

/// In the order of the model's own; kInvalidArgument as ParameterTable::create().
Result<training::ParameterTable> parameters_of(const ModelShape& shape);
/// A unit for each block, and one for what is outside of them, which stays whole in a step.
std::vector<training::Plan::Unit> units_of(const training::ParameterTable& table,
                                           const ModelShape& shape);

/// As counters of a checkpoint, and back; nullopt where they are not there or fit no model.
void add_counters(const ModelShape& shape, std::map<std::string, std::uint64_t>& counters);
std::optional<ModelShape> shape_in(const std::map<std::string, std::uint64_t>& counters);

}  // namespace tutti::trainer
