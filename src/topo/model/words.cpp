#include "src/topo/model/words.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace tutti::topo {
namespace {

constexpr std::size_t kLongestName = 256;

/// How many bytes the character takes that begins with `first`; 0 where none may.
std::size_t length_by_first(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return 2;
  if (first >= 0xE0 && first <= 0xEF) return 3;
  if (first >= 0xF0 && first <= 0xF4) return 4;
  return 0;
}

/// The second byte excludes overlong forms, surrogates and what lies beyond U+10FFFF.
bool may_follow(unsigned char first, unsigned char second) {
  const unsigned char lowest = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char highest = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  return second >= lowest && second <= highest;
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7F;
}

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  std::string line;
  for (const char c : text.substr(0, most))
    line += c >= ' ' && c <= '~' ? std::string(1, c)
                                 : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return line + (text.size() > most ? "..." : "");
}

std::string shown(std::string_view text) { return "`" + printable(text, 60) + "`"; }

std::string position(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, byte == 0 ? 0 : byte - 1);
  const std::size_t last_end = before.rfind('\n');
  return fmt::format("line {} column {}", std::ranges::count(before, '\n') + 1,
                     before.size() - (last_end == before.npos ? 0 : last_end + 1) + 1);
}

bool is_utf8(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = length_by_first(byte(at));
    if (length == 0 || length > text.size() - at) return false;
    if (length > 1 && !may_follow(byte(at), byte(at + 1))) return false;
    for (std::size_t i = 2; i < length; ++i)
      if ((byte(at + i) & 0xC0U) != 0x80) return false;
    at += length;
  }
  return true;
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && is_utf8(name) &&
         std::ranges::none_of(name, is_control);
}

}  // namespace tutti::topo
