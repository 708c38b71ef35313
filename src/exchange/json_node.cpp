#include "src/exchange/json_node.hpp"

#include <algorithm>

namespace tutti::exchange {
namespace {

constexpr std::size_t kLargestJson = std::size_t{16} << 20;
constexpr int kDeepest = 32;

}  // namespace

Result<nlohmann::json> parse_json(std::string_view text) {
  using Json = nlohmann::json;
  if (text.size() > kLargestJson)
    return make_error(Code::kInvalidArgument, "the file has {} bytes; at most {} were expected",
                      text.size(), kLargestJson);
  bool too_deep = false;
  const auto shallow = [&](int depth, Json::parse_event_t, const Json&) {
    too_deep |= depth > kDeepest;
    return depth <= kDeepest;  // what is deeper is dropped
  };
  try {
    Json json = Json::parse(text, shallow);
    if (too_deep)
      return make_error(Code::kInvalidArgument, "the file is nested deeper than {}", kDeepest);
    return json;
  } catch (const Json::exception& error) {
    const auto* const syntax = dynamic_cast<const Json::parse_error*>(&error);
    const std::size_t at = syntax == nullptr ? 0 : std::max<std::size_t>(syntax->byte, 1) - 1;
    return make_error(Code::kInvalidArgument, "{}: this is no JSON", place_in(text, at));
  }
}

std::string JsonNode::path() const {
  std::string text;
  for (const JsonNode* node = this; node != nullptr && node->parent_ != nullptr;
       node = node->parent_) {
    const bool is_entry = node->key_.empty();
    const bool is_outermost = node->parent_->parent_ == nullptr;
    text = (is_entry       ? fmt::format("[{}]", node->index_)
            : is_outermost ? std::string(node->key_)
                           : fmt::format(".{}", node->key_)) +
           text;
  }
  return text.empty() ? "the file" : text;
}

Result<JsonNode> JsonNode::at(std::string_view key) const {
  if (!has(key)) return wrong(Code::kInvalidArgument, "`{}` is missing", key);
  return JsonNode((*value_)[std::string(key)], this, key, 0);
}

std::string JsonNode::word(std::string_view key) const {
  if (!has(key)) return "";
  const nlohmann::json& value = (*value_)[std::string(key)];
  return value.is_string() ? value.get<std::string>() : "";
}

Result<std::int64_t> JsonNode::number(std::int64_t first, std::int64_t last) const {
  const bool fits = value_->is_number_integer() &&
                    (!value_->is_number_unsigned() || value_->get<std::uint64_t>() <= INT64_MAX);
  const std::int64_t value = fits ? value_->get<std::int64_t>() : 0;
  if (!fits || value < first || value > last)
    return wrong(Code::kInvalidArgument, "a whole number from {} to {} was expected", first, last);
  return value;
}

Result<std::int64_t> JsonNode::number(std::string_view key, std::int64_t first,
                                      std::int64_t last) const {
  TUTTI_ASSIGN(const JsonNode node, at(key));
  return node.number(first, last);
}

Result<std::size_t> JsonNode::size_of(std::string_view key) const {
  if (!has(key)) return std::size_t{0};
  const JsonNode node((*value_)[std::string(key)], this, key, 0);
  if (!node.value_->is_array()) return node.wrong(Code::kInvalidArgument, "a list was expected");
  return node.value_->size();
}

}  // namespace tutti::exchange
