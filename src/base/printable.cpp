#include "src/base/printable.hpp"

#include <fmt/format.h>

namespace tutti {

std::string without_controls(std::string_view text, std::string_view kept) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool controls = (byte < 0x20 || byte == 0x7F) && kept.find(c) == kept.npos;
    shown += controls ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return shown;
}

}  // namespace tutti
