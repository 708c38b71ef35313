// CRC-32C (Castagnoli), as in iSCSI (RFC 3720, appendix B.4): detects bytes damaged by storage.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::training {

namespace crc32c_detail {

constexpr std::array<std::uint32_t, 256> make_table() {
  constexpr std::uint32_t kReversedPolynomial = 0x82f63b78;
  std::array<std::uint32_t, 256> table = {};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit)
      rest = (rest & 1U) != 0 ? rest >> 1U ^ kReversedPolynomial : rest >> 1U;
    table[byte] = rest;
  }
  return table;
}
inline constexpr std::array<std::uint32_t, 256> kTable = make_table();

}  // namespace crc32c_detail

/// Checksum of bytes that arrive in parts. Value.
class Crc32c {
 public:
  constexpr Crc32c& add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes)
      rest_ = rest_ >> 8U ^
              crc32c_detail::kTable[(rest_ ^ std::to_integer<std::uint32_t>(byte)) & 0xffU];
    return *this;
  }
  [[nodiscard]] constexpr std::uint32_t value() const { return ~rest_; }

 private:
  std::uint32_t rest_ = ~0U;
};

constexpr std::uint32_t crc32c(std::span<const std::byte> bytes) {
  return Crc32c().add(bytes).value();
}

}  // namespace tutti::training
