#include "src/exec/caption.hpp"

#include <algorithm>
#include <cstring>

namespace tutti::exec {

void write_caption(Caption& caption, std::string_view text) {
  const std::size_t length = std::min(text.size(), sizeof caption.text - 1);
  std::memcpy(caption.text, text.data(), length);
  caption.text[length] = '\0';
}

std::string read_caption(const Caption& caption) {
  std::string text(caption.text, sizeof caption.text);
  text.resize(std::min(text.find('\0'), text.size()));
  std::ranges::replace_if(text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

std::string shown(const CallSignature& call, std::string_view caption) {
  return caption.empty() ? describe(call) : std::string(caption);
}

}  // namespace tutti::exec
