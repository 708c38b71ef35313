// Reads fields of JSON that a peer sent: each is checked for its kind and its range.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/base/printable.hpp"
#include "src/base/result.hpp"

namespace tutti::doctor {

/// Fields of one object. The first one that is wrong is kept as the error, and all later ones read
/// as zero or empty: callers read all and look once.
class Fields {
 public:
  using Json = nlohmann::json;
  static constexpr std::size_t kLongestText = 2048;
  static constexpr std::size_t kMostEntries = 256;

  /// Refers to `json` and `status`, which must outlive it.
  Fields(const Json& json, Status& status) : json_(json), status_(status) {
    if (!json.is_object()) fail("it", "is not an object");
  }

  template <class Number>
  Number number(const char* name, Number least = std::numeric_limits<Number>::lowest(),
                Number most = std::numeric_limits<Number>::max()) {
    const Json* const field = find(name);
    if (field == nullptr) return Number{};
    if constexpr (std::is_floating_point_v<Number>) {
      if (!field->is_number()) return fail(name, "is not a number"), Number{};
      const auto value = field->get<Number>();
      if (!std::isfinite(value) || value < least || value > most)
        return fail(name, "is out of range"), Number{};
      return value;
    } else {
      if (!field->is_number_integer()) return fail(name, "is not a whole number"), Number{};
      const bool fits = field->is_number_unsigned()
                            ? std::in_range<Number>(field->get<std::uint64_t>())
                            : std::in_range<Number>(field->get<std::int64_t>());
      const Number value = fits ? field->get<Number>() : Number{};
      if (!fits || value < least || value > most) return fail(name, "is out of range"), Number{};
      return value;
    }
  }
  bool flag(const char* name) {
    const Json* const field = find(name);
    if (field == nullptr) return false;
    if (!field->is_boolean()) return fail(name, "is not true or false"), false;
    return field->get<bool>();
  }
  std::string text(const char* name) {
    const Json* const field = find(name);
    return field == nullptr ? std::string() : text_of(name, *field);
  }
  std::vector<std::string> texts(const char* name) {
    std::vector<std::string> all;
    each(name, [&](const Json& entry) { all.push_back(text_of(name, entry)); });
    return all;
  }
  /// Calls `body(entry)` for each entry of a list.
  template <class Body>
  void each(const char* name, Body body) {
    const Json* const field = find(name);
    if (field == nullptr) return;
    if (!field->is_array() || field->size() > kMostEntries)
      return fail(name, "is no list, or too long");
    for (const Json& entry : *field) body(entry);
  }
  /// Calls `body(key, value)` for each pair of texts.
  template <class Body>
  void each_pair(const char* name, Body body) {
    const Json* const field = find(name);
    if (field == nullptr) return;
    if (!field->is_object() || field->size() > kMostEntries)
      return fail(name, "is no object, or too large");
    for (const auto& [key, value] : field->items())
      body(short_text(name, key), text_of(name, value));
  }
  /// The object under `name`, or an empty one.
  const Json& object(const char* name) {
    static const Json kNone = Json::object();
    const Json* const field = find(name);
    return field == nullptr ? kNone : *field;
  }
  [[nodiscard]] bool has(const char* name) const {
    return json_.is_object() && json_.contains(name);
  }
  void fail(const char* name, const char* what) {
    if (status_) status_ = make_error(Code::kWrongData, "'{}' {}", name, what);
  }

 private:
  const Json* find(const char* name) {
    if (!status_) return nullptr;
    const auto found = json_.find(name);
    if (found != json_.end()) return &*found;
    fail(name, "is missing");
    return nullptr;
  }
  std::string text_of(const char* name, const Json& value) {
    if (!value.is_string()) return fail(name, "is no text"), "";
    return short_text(name, value.get_ref<const std::string&>());
  }
  std::string short_text(const char* name, const std::string& text) {
    std::string clean = without_controls(text);
    if (clean.size() > kLongestText) return fail(name, "is too long"), "";
    return clean;
  }

  const Json& json_;
  Status& status_;
};

}  // namespace tutti::doctor
