// Makes untrusted text fit to be shown and to be kept.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti::topo {

/// `text` in one line of printable ASCII: other bytes become \xNN, and what is longer than `most`
/// bytes is cut.
std::string printable(std::string_view text, std::size_t most);

/// The first 60 bytes of it, printable and between backquotes.
std::string shown(std::string_view text);

/// "line 3 column 14" of the character at `byte` of `text`; all three are counted from 1.
std::string position(std::string_view text, std::size_t byte);

/// Whether `text` is valid UTF-8 (Unicode 15, table 3-7): no overlong forms, no surrogates.
bool is_utf8(std::string_view text);

/// Whether `name` may name a host or node: 1 to 256 bytes of UTF-8 without control characters.
bool is_name(std::string_view name);

}  // namespace tutti::topo
