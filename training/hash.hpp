// A hash that is equal on every machine, for values that ranks compare.
#pragma once

#include <cstdint>
#include <string_view>

namespace tutti::training {

/// FNV-1a over 64 bits. Value.
class Hash {
 public:
  Hash& add(std::uint64_t number) {
    for (int byte = 0; byte < 8; ++byte) add_byte(static_cast<std::uint8_t>(number >> 8 * byte));
    return *this;
  }
  /// Includes the length, so that consecutive texts cannot be confused.
  Hash& add(std::string_view text) {
    add(text.size());
    for (const char c : text) add_byte(static_cast<std::uint8_t>(c));
    return *this;
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  void add_byte(std::uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3; }
  std::uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace tutti::training
