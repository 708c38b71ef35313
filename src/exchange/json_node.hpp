// JSON values that know their path, which errors name: "gpus[0].threadblocks[1].ops[3]".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "src/base/result.hpp"
#include "src/exchange/foreign.hpp"

namespace tutti::exchange {

/// Rejects text that is too long or nested too deep. Syntax errors name line and column.
Result<nlohmann::json> parse_json(std::string_view text);

/// Owns neither its value nor its parent: both must outlive it.
class JsonNode {
 public:
  explicit JsonNode(const nlohmann::json& value) : value_(&value) {}

  [[nodiscard]] const nlohmann::json& value() const { return *value_; }
  [[nodiscard]] std::string path() const;
  template <class... Args>
  [[nodiscard]] Error wrong(Code code, fmt::format_string<Args...> format, Args&&... args) const {
    return make_error(code, "{}: {}", path(), fmt::format(format, std::forward<Args>(args)...));
  }

  [[nodiscard]] bool has(std::string_view key) const {
    return value_->is_object() && value_->contains(key);
  }
  /// The value of a required key.
  Result<JsonNode> at(std::string_view key) const;
  /// Entry i of a list; it must exist.
  [[nodiscard]] JsonNode at(std::size_t i) const { return {(*value_)[i], this, "", i}; }
  /// "" if the key has no string.
  [[nodiscard]] std::string word(std::string_view key) const;
  Result<std::int64_t> number(std::int64_t first, std::int64_t last) const;
  Result<std::int64_t> number(std::string_view key, std::int64_t first, std::int64_t last) const;
  /// Number of entries in the key's list; 0 without the key.
  Result<std::size_t> size_of(std::string_view key) const;

  /// Calls visit(JsonNode) for each entry of the key's list, if there is one.
  template <class Visit>
  Status for_each(std::string_view key, Visit&& visit) const {
    TUTTI_ASSIGN(const std::size_t size, size_of(key));
    if (size == 0) return ok_status();
    const JsonNode list((*value_)[std::string(key)], this, key, 0);
    for (std::size_t i = 0; i < size; ++i) TUTTI_TRY(visit(list.at(i)));
    return ok_status();
  }

 private:
  JsonNode(const nlohmann::json& value, const JsonNode* parent, std::string_view key,
           std::size_t index)
      : value_(&value), parent_(parent), key_(key), index_(index) {}

  const nlohmann::json* value_;
  const JsonNode* parent_ = nullptr;
  std::string_view key_;   ///< "": an entry of a list
  std::size_t index_ = 0;  ///< index in that list
};

}  // namespace tutti::exchange
