// The parameters of a model, with names and shapes: a value that ranks compare before training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tutti/error.hpp"

namespace tutti::training {

/// A trained tensor. Value.
struct Parameter {
  std::string name;  ///< "blocks.3.attention.qkv.weight"; unique, at most kLongestName bytes
  std::vector<std::int64_t> shape;  ///< each at least 1; empty: a scalar
  bool decays = true;               ///< whether weight decay applies
  friend bool operator==(const Parameter&, const Parameter&) = default;
};
inline constexpr std::size_t kLongestName = 512;
/// Most elements of a model: 4 TiB of float32.
inline constexpr std::size_t kMostElements = std::size_t{1} << 40;

/// A parameter's index in the table.
using ParameterId = std::uint32_t;

/// Checked and immutable: a model's parameters in the order in which its forward pass uses them.
class ParameterTable {
 public:
  /// kInvalidArgument names the wrong parameter: an empty or duplicate name, a dimension below 1,
  /// more than kMostElements elements in total. It is also the error if there are no parameters.
  static Result<ParameterTable> create(std::vector<Parameter> parameters);

  [[nodiscard]] std::size_t size() const { return parameters_.size(); }
  [[nodiscard]] std::span<const Parameter> all() const { return parameters_; }
  [[nodiscard]] const Parameter& operator[](ParameterId id) const { return parameters_[id]; }
  [[nodiscard]] std::size_t elements(ParameterId id) const { return elements_[id]; }
  /// Number of elements of all parameters.
  [[nodiscard]] std::size_t elements() const { return total_; }
  [[nodiscard]] std::optional<ParameterId> find(std::string_view name) const;
  /// Equal tables have equal hashes, on every machine.
  [[nodiscard]] std::uint64_t hash() const { return hash_; }

  friend bool operator==(const ParameterTable& a, const ParameterTable& b) {
    return a.parameters_ == b.parameters_;
  }

 private:
  ParameterTable() = default;
  std::vector<Parameter> parameters_;
  std::vector<std::size_t> elements_;
  std::unordered_map<std::string, ParameterId> by_name_;
  std::size_t total_ = 0;
  std::uint64_t hash_ = 0;
};

/// The first difference between two tables, for an error: "parameter 3 is 'a' of [2, 3] here and
/// 'b' of [2] there"; "" if they are equal.
std::string difference(const ParameterTable& here, const ParameterTable& there);

}  // namespace tutti::training
