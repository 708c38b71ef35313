// Reads untrusted XML as elements with attributes, which is all that NCCL and hwloc use. pugixml
// parses it. This adds limits, the rules that pugixml leaves out, and each element's line and
// column for errors. Entities that a DTD declares are never expanded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <pugixml.hpp>

#include "tutti/error.hpp"

namespace tutti::topo {

/// Both ends are allowed.
struct IntegerRange {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

/// Whether a format has words between its elements.
enum class XmlWords : std::uint8_t { kNone, kSome };

/// Refers to the text that it was read from, which must outlive it.
class XmlText {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20U;
  static constexpr std::size_t kMostElements = std::size_t{1} << 20U;
  static constexpr int kMostDepth = 64;
  static constexpr std::size_t kMostAttributes = 256;  ///< of one element

  /// kInvalidArgument with line and column: text that is no XML, or not UTF-8, whose only outermost
  /// element is not `root` ("": any), with an attribute given twice, with words between elements
  /// unless the format has them, or beyond the limits.
  static Result<XmlText> parse(std::string_view text, std::string_view root,
                               XmlWords words = XmlWords::kNone);

  [[nodiscard]] pugi::xml_node root() const;

  /// "line 3 column 5", counted in bytes from 1.
  [[nodiscard]] std::string place(pugi::xml_node element) const;

  /// "line 3 column 5: `what`", kInvalidArgument.
  [[nodiscard]] Error error(pugi::xml_node element, std::string_view what) const;
  /// The same about an attribute: "line 3 column 5: <gpu> has sm=`x`, expected `expected`".
  [[nodiscard]] Error wrong_value(pugi::xml_attribute attribute, pugi::xml_node element,
                                  std::string_view expected) const;

  /// The integer that attribute `key` holds in decimal; an error where it is missing.
  [[nodiscard]] Result<std::int64_t> integer(pugi::xml_node element, const char* key,
                                             IntegerRange range) const;
  /// The same, `fallback` where it is missing.
  [[nodiscard]] Result<std::int64_t> integer_or(pugi::xml_node element, const char* key,
                                                IntegerRange range, std::int64_t fallback) const;
  /// The finite number that is not negative; `fallback` where it is missing.
  [[nodiscard]] Result<double> real_or(pugi::xml_node element, const char* key,
                                       double fallback) const;

 private:
  XmlText(std::string_view text, std::unique_ptr<pugi::xml_document> document)
      : text_(text), document_(std::move(document)) {}

  [[nodiscard]] std::string place_of_byte(std::size_t offset) const;
  [[nodiscard]] Status check(std::string_view name, XmlWords words) const;
  [[nodiscard]] Status check_element(pugi::xml_node element, int depth, XmlWords allowed) const;

  std::string_view text_;
  std::unique_ptr<pugi::xml_document> document_;
};

/// `element` and all in it in NCCL's layout: an element a line, two blanks deeper for each level,
/// "/>" without a blank before it.
std::string to_lines(pugi::xml_node element);
/// The same in one line.
std::string to_line(pugi::xml_node element);

}  // namespace tutti::topo
