// float32 as bfloat16. The loops are plain, and the compiler vectorises them once for any processor
// and once for each wider instruction set; rounding is integer arithmetic, so all give the same
// bits.
#include <cstdint>
#include <cstring>

#include "src/base/float_formats.hpp"
#include "src/codec/codec.hpp"

namespace tutti {
namespace {

constexpr std::size_t kDecodedBytes = sizeof(std::uint32_t);
constexpr std::size_t kEncodedBytes = sizeof(std::uint16_t);

/// narrow<Bfloat16> on the bits of a float32, without branches.
[[gnu::always_inline]] inline std::uint16_t rounded(std::uint32_t bits) {
  const std::uint32_t nearest = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  const std::uint32_t nan = (bits >> 16 & 0x8000u) | Bfloat16::kNan;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : nearest);
}

[[gnu::always_inline]] inline void encode_loop(const std::byte* in, std::byte* out,
                                               std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, in + i * kDecodedBytes, kDecodedBytes);
    const std::uint16_t code = rounded(bits);
    std::memcpy(out + i * kEncodedBytes, &code, kEncodedBytes);
  }
}

[[gnu::always_inline]] inline void decode_loop(const std::byte* in, std::byte* out,
                                               std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t code;
    std::memcpy(&code, in + i * kEncodedBytes, kEncodedBytes);
    const std::uint32_t bits = static_cast<std::uint32_t>(code) << 16;
    std::memcpy(out + i * kDecodedBytes, &bits, kDecodedBytes);
  }
}

struct Loops {
  void (*encode)(const std::byte* in, std::byte* out, std::size_t count);
  void (*decode)(const std::byte* in, std::byte* out, std::size_t count);
};

void encode_plain(const std::byte* in, std::byte* out, std::size_t count) {
  encode_loop(in, out, count);
}
void decode_plain(const std::byte* in, std::byte* out, std::size_t count) {
  decode_loop(in, out, count);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void encode_avx2(const std::byte* in, std::byte* out, std::size_t count) {
  encode_loop(in, out, count);
}
[[gnu::target("avx2")]] void decode_avx2(const std::byte* in, std::byte* out, std::size_t count) {
  decode_loop(in, out, count);
}
#endif

Loops best_loops() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return {encode_avx2, decode_avx2};
#endif
  return {encode_plain, decode_plain};
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

  std::size_t encoded_bytes(std::size_t count) const override { return count * kEncodedBytes; }

  void encode(std::span<const std::byte> in, std::span<std::byte> out,
              std::size_t count) const override {
    loops_.encode(in.data(), out.data(), count);
  }

  void decode(std::span<const std::byte> in, std::span<std::byte> out,
              std::size_t count) const override {
    loops_.decode(in.data(), out.data(), count);
  }

 private:
  Loops loops_ = best_loops();
};

}  // namespace

const Codec& bfloat16_codec() {
  static const Bfloat16Codec codec;
  return codec;
}

}  // namespace tutti
