// JSON from untrusted files.
#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

namespace tutti::training {

/// Whether arrays and objects in a text are nested at most `deepest` levels.
inline bool is_shallow(std::string_view text, int deepest) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > deepest) return false;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return true;
}

/// Returns a null value for text that is not JSON or is nested too deep.
inline nlohmann::json parse_json(std::string_view text, int deepest) {
  if (!is_shallow(text, deepest)) return {};
  nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return {};
  return json;
}

}  // namespace tutti::training
