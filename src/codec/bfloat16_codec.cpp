// float32 as bfloat16: the loops are plain so that the compiler can vectorise them for any
// processor; rounding is integer arithmetic, so every processor gives the same bits.
#include <bit>
#include <cstdint>
#include <cstring>

#include "src/base/float_formats.hpp"
#include "src/codec/codec.hpp"

namespace tutti {
namespace {

/// narrow<Bfloat16> without branches.
std::uint16_t round_bits(std::uint32_t bits) {
  const std::uint32_t nearest = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  const std::uint32_t nan = (bits >> 16 & 0x8000u) | Bfloat16::kNan;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : nearest);
}

class Bfloat16Codec final : public Codec {
 public:
  CodecTraits traits() const override {
    return {.name = "bfloat16",
            .decoded = DataType::kFloat32,
            .lossless = false,
            .sums_encoded = false,
            .block_elements = 1};
  }

  std::size_t encoded_bytes(std::size_t count) const override { return count * kEncoded; }

  void encode(std::span<const std::byte> in, std::span<std::byte> out,
              std::size_t count) const override {
    const std::byte* const from = in.data();
    std::byte* const to = out.data();
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t bits;
      std::memcpy(&bits, from + i * kDecoded, kDecoded);
      const std::uint16_t rounded = round_bits(bits);
      std::memcpy(to + i * kEncoded, &rounded, kEncoded);
    }
  }

  void decode(std::span<const std::byte> in, std::span<std::byte> out,
              std::size_t count) const override {
    const std::byte* const from = in.data();
    std::byte* const to = out.data();
    for (std::size_t i = 0; i < count; ++i) {
      std::uint16_t code;
      std::memcpy(&code, from + i * kEncoded, kEncoded);
      const std::uint32_t bits = static_cast<std::uint32_t>(code) << 16;
      std::memcpy(to + i * kDecoded, &bits, kDecoded);
    }
  }

 private:
  static constexpr std::size_t kDecoded = sizeof(std::uint32_t);
  static constexpr std::size_t kEncoded = sizeof(std::uint16_t);
};

}  // namespace

const Codec& bfloat16_codec() {
  static const Bfloat16Codec codec;
  return codec;
}

}  // namespace tutti
