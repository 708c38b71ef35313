#include "src/exchange/foreign.hpp"

#include <algorithm>
#include <cctype>

#include "src/base/result.hpp"

namespace tutti::exchange {

std::string place_in(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  return fmt::format("line {} column {}", std::ranges::count(before, '\n') + 1,
                     before.size() - line_begin + 1);
}

Error at_place(std::string_view place, const Error& error) {
  return make_error(error.code, "{}: {}", place, error.what);
}

std::string plain_name(std::string_view name) {
  constexpr std::size_t kLongest = 64;
  std::string plain;
  for (const char c : name.substr(0, kLongest)) {
    const bool kept =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
    plain += kept ? c : '_';
  }
  return plain.empty() ? "imported" : plain;
}

std::string shown(std::string_view word) {
  constexpr std::size_t kMost = 40;
  std::string text = "`";
  for (const char c : word.substr(0, kMost)) text += c >= ' ' && c <= '~' ? c : '?';
  return text + (word.size() > kMost ? "...`" : "`");
}

}  // namespace tutti::exchange
