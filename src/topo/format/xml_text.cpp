#include "src/topo/format/xml_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "src/base/result.hpp"
#include "src/topo/model/words.hpp"

namespace tutti::topo {
namespace {

constexpr std::string_view kBlank = " \t\r\n";
// With "fragment", words outside the outermost element are found here instead of skipped.
constexpr unsigned kParse = pugi::parse_default | pugi::parse_fragment;

void append_escaped(std::string_view text, std::string& out) {
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (static_cast<unsigned char>(c) < ' ') {
      out += fmt::format("&#{};", static_cast<int>(c));
    } else {
      out += c;
    }
  }
}

/// `level` below 0: all in one line.
void append_element(pugi::xml_node element, int level, std::string& out) {
  const std::string indent(level > 0 ? static_cast<std::size_t>(level) * 2 : 0, ' ');
  const std::string_view end_of_line = level < 0 ? "" : "\n";
  out += fmt::format("{}<{}", indent, element.name());
  for (const pugi::xml_attribute attribute : element.attributes()) {
    out += fmt::format(" {}=\"", attribute.name());
    append_escaped(attribute.value(), out);
    out += '"';
  }
  if (!element.first_child()) {
    out += fmt::format("/>{}", end_of_line);
    return;
  }
  out += fmt::format(">{}", end_of_line);
  for (const pugi::xml_node child : element.children())
    append_element(child, level < 0 ? level : level + 1, out);
  out += fmt::format("{}</{}>{}", indent, element.name(), end_of_line);
}

/// What follows `element` when a tree is read from the outside in, and how much deeper it lies.
pugi::xml_node next_element(pugi::xml_node element, int& depth) {
  if (element.first_child()) {
    ++depth;
    return element.first_child();
  }
  while (element && !element.next_sibling()) {
    element = element.parent();
    --depth;
  }
  return element.next_sibling();
}

}  // namespace

Result<XmlText> XmlText::parse(std::string_view text, std::string_view root, XmlWords words) {
  if (text.size() > kMostBytes)
    return make_error(Code::kInvalidArgument, "{} bytes of XML are too many: at most {} are read",
                      text.size(), kMostBytes);
  XmlText xml(text, std::make_unique<pugi::xml_document>());
  // pugixml takes a zero byte for the end of the text.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos)
    return make_error(Code::kInvalidArgument, "{}: a zero byte is no part of XML",
                      xml.place_of_byte(zero));
  const auto read =
      xml.document_->load_buffer(text.data(), text.size(), kParse, pugi::encoding_utf8);
  if (!read)
    return make_error(
        Code::kInvalidArgument, "{}: this is no XML: {}",
        xml.place_of_byte(static_cast<std::size_t>(std::max<std::ptrdiff_t>(read.offset, 0))),
        read.description());
  TUTTI_TRY(xml.check(root, words));
  return xml;
}

pugi::xml_node XmlText::root() const { return document_->first_child(); }

std::string XmlText::place_of_byte(std::size_t offset) const {
  const std::string_view before = text_.substr(0, offset);
  const auto lines = std::ranges::count(before, '\n');
  return fmt::format("line {} column {}", lines + 1, before.size() - (before.rfind('\n') + 1) + 1);
}

std::string XmlText::place(pugi::xml_node element) const {
  auto offset = static_cast<std::size_t>(std::max<std::ptrdiff_t>(element.offset_debug(), 0));
  if (element.type() == pugi::node_element) {
    if (offset > 0) --offset;  // from the name to the angle bracket
  } else {
    offset = std::min(text_.find_first_not_of(kBlank, offset), text_.size());
  }
  return place_of_byte(offset);
}

Error XmlText::error(pugi::xml_node element, std::string_view what) const {
  return make_error(Code::kInvalidArgument, "{}: {}", place(element), what);
}

Error XmlText::wrong_value(pugi::xml_attribute attribute, pugi::xml_node element,
                           std::string_view expected) const {
  return error(element, fmt::format("<{}> has {}={}, expected {}", element.name(), attribute.name(),
                                    shown(attribute.value()), expected));
}

Status XmlText::check(std::string_view name, XmlWords words) const {
  std::size_t elements = 0;
  int depth = 1;
  for (pugi::xml_node node = root(); node; node = next_element(node, depth)) {
    if (++elements > kMostElements)
      return error(node, fmt::format("more than {} elements are not read", kMostElements));
    TUTTI_TRY(check_element(node, depth, words));
  }
  if (elements == 0 || root() != document_->last_child() ||
      (!name.empty() && root().name() != name))
    return make_error(Code::kInvalidArgument, "{}: expected one outermost element{}",
                      place(document_->last_child()),
                      name.empty() ? "" : fmt::format(", <{}>", name));
  return ok_status();
}

Status XmlText::check_element(pugi::xml_node element, int depth, XmlWords allowed) const {
  if (element.type() == pugi::node_pcdata && depth > 1 && allowed == XmlWords::kSome)
    return ok_status();
  if (element.type() != pugi::node_element) {
    const std::string_view words = element.value();
    return error(
        element,
        fmt::format("found {}, expected an element: this format has no words "
                    "between elements",
                    shown(words.substr(std::min(words.find_first_not_of(kBlank), words.size())))));
  }
  if (depth > kMostDepth)
    return error(element, fmt::format("elements lie more than {} deep in one another", kMostDepth));
  std::vector<std::string_view> keys;
  for (const pugi::xml_attribute attribute : element.attributes()) {
    keys.emplace_back(attribute.name());
    if (keys.size() > kMostAttributes)
      return error(element, fmt::format("<{}> has more than {} attributes", element.name(),
                                        kMostAttributes));
    if (!is_utf8(attribute.name()) || !is_utf8(attribute.value()))
      return wrong_value(attribute, element, "UTF-8");
  }
  if (!is_utf8(element.name())) return error(element, "the name of an element is not UTF-8");
  std::ranges::sort(keys);
  if (const auto twice = std::ranges::adjacent_find(keys); twice != keys.end())
    return error(element, fmt::format("<{}> has the attribute {} twice", element.name(), *twice));
  return ok_status();
}

Result<std::int64_t> XmlText::integer(pugi::xml_node element, const char* key,
                                      IntegerRange range) const {
  const pugi::xml_attribute attribute = element.attribute(key);
  if (!attribute) return error(element, fmt::format("<{}> lacks {}", element.name(), key));
  const std::string_view text = attribute.value();
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool read = failure == std::errc{} && end == text.data() + text.size();
  if (!read || value < range.least || value > range.most)
    return wrong_value(attribute, element,
                       fmt::format("an integer from {} to {}", range.least, range.most));
  return value;
}

Result<std::int64_t> XmlText::integer_or(pugi::xml_node element, const char* key,
                                         IntegerRange range, std::int64_t fallback) const {
  if (!element.attribute(key)) return fallback;
  return integer(element, key, range);
}

Result<double> XmlText::real_or(pugi::xml_node element, const char* key, double fallback) const {
  const pugi::xml_attribute attribute = element.attribute(key);
  if (!attribute) return fallback;
  const std::string_view text = attribute.value();
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool read = failure == std::errc{} && end == text.data() + text.size();
  if (!read || !std::isfinite(value) || value < 0)
    return wrong_value(attribute, element, "a number that is not negative");
  return value;
}

std::string to_lines(pugi::xml_node element) {
  std::string text;
  append_element(element, 0, text);
  return text;
}

std::string to_line(pugi::xml_node element) {
  std::string text;
  append_element(element, -1, text);
  return text;
}

}  // namespace tutti::topo
