#include "src/base/crc32c.hpp"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace tutti {
namespace {

constexpr std::uint32_t kReversedPolynomial = 0x82f63b78;

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit)
      value = (value & 1) != 0 ? value >> 1 ^ kReversedPolynomial : value >> 1;
    table[byte] = value;
  }
  return table;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::span<const std::byte> bytes,
                                                               std::uint32_t so_far) {
  std::uint64_t value = ~so_far;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= sizeof(std::uint64_t); left -= sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    value = _mm_crc32_u64(value, word);
    at += sizeof word;
  }
  auto rest = static_cast<std::uint32_t>(value);
  for (; left > 0; --left) rest = _mm_crc32_u8(rest, static_cast<std::uint8_t>(*at++));
  return ~rest;
}
#endif

}  // namespace

std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t so_far) {
  static constexpr auto kTable = make_table();
  std::uint32_t value = ~so_far;
  for (const std::byte byte : bytes)
    value = value >> 8 ^ kTable[(value ^ static_cast<std::uint32_t>(byte)) & 0xff];
  return ~value;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t so_far) {
#if defined(__x86_64__)
  static const bool kHasInstruction = __builtin_cpu_supports("sse4.2") != 0;
  if (kHasInstruction) return by_instruction(bytes, so_far);
#endif
  return crc32c_by_table(bytes, so_far);
}

}  // namespace tutti
