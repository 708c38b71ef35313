#include "training/parameters.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "training/hash.hpp"
#include "training/outcome.hpp"

namespace tutti::training {
namespace {

std::string describe(const Parameter& parameter) {
  return fmt::format("'{}' of [{}]{}", parameter.name, fmt::join(parameter.shape, ", "),
                     parameter.decays ? "" : " without decay");
}

Result<std::size_t> elements_of(const Parameter& parameter) {
  std::size_t elements = 1;
  for (const std::int64_t dimension : parameter.shape) {
    if (dimension < 1)
      return failure(Code::kInvalidArgument,
                     "parameter {}: a dimension is {}, and the least is 1: leave out parameters "
                     "without elements",
                     describe(parameter), dimension);
    if (static_cast<std::size_t>(dimension) > kMostElements / elements)
      return failure(Code::kInvalidArgument, "parameter {} has more than 2^40 elements",
                     describe(parameter));
    elements *= static_cast<std::size_t>(dimension);
  }
  return elements;
}

Status check_name(const std::string& name, std::size_t number) {
  if (name.empty()) return failure(Code::kInvalidArgument, "parameter {} has no name", number);
  if (name.size() > kLongestName)
    return failure(Code::kInvalidArgument,
                   "the name of parameter {} has {} bytes, and at most {} are kept: '{}...'",
                   number, name.size(), kLongestName, name.substr(0, 64));
  return ok_status();
}

}  // namespace

Result<ParameterTable> ParameterTable::create(std::vector<Parameter> parameters) {
  if (parameters.empty())
    return failure(Code::kInvalidArgument, "the model has no parameters that are trained");
  ParameterTable table;
  Hash hash;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    TRAINING_TRY(check_name(parameter.name, i));
    const auto [known, is_new] = table.by_name_.try_emplace(parameter.name, i);
    if (!is_new)
      return failure(Code::kInvalidArgument,
                     "parameters {} and {} are both named '{}': give tied parameters once",
                     known->second, i, parameter.name);
    TRAINING_ASSIGN(const std::size_t elements, elements_of(parameter));
    table.elements_.push_back(elements);
    table.total_ += elements;
    if (table.total_ > kMostElements)
      return failure(Code::kInvalidArgument,
                     "the parameters up to '{}' have more than 2^40 elements", parameter.name);
    hash.add(parameter.name).add(parameter.decays ? 1 : 0).add(parameter.shape.size());
    for (const std::int64_t dimension : parameter.shape)
      hash.add(static_cast<std::uint64_t>(dimension));
  }
  table.hash_ = hash.value();
  table.parameters_ = std::move(parameters);
  return table;
}

std::optional<ParameterId> ParameterTable::find(std::string_view name) const {
  const auto found = by_name_.find(std::string(name));
  if (found == by_name_.end()) return std::nullopt;
  return found->second;
}

std::string difference(const ParameterTable& here, const ParameterTable& there) {
  const std::size_t both = std::min(here.size(), there.size());
  for (ParameterId id = 0; id < both; ++id)
    if (!(here[id] == there[id]))
      return fmt::format("parameter {} is {} here and {} there", id, describe(here[id]),
                         describe(there[id]));
  if (here.size() == there.size()) return "";
  const bool more_here = here.size() > there.size();
  const ParameterTable& longer = more_here ? here : there;
  return fmt::format("there are {} parameters here and {} there; the first that only one has is {}",
                     here.size(), there.size(), describe(longer[static_cast<ParameterId>(both)]));
}

}  // namespace tutti::training
