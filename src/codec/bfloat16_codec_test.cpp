#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/float_formats.hpp"
#include "src/codec/codec.hpp"

namespace tutti {
namespace {

/// Encodes bit patterns of float32, from and to addresses that are `shift` bytes off alignment.
std::vector<std::uint16_t> encode(const std::vector<std::uint32_t>& values, std::size_t shift = 0) {
  const Codec& codec = bfloat16_codec();
  std::vector<std::byte> in(values.size() * 4 + shift);
  std::vector<std::byte> out(codec.encoded_bytes(values.size()) + shift);
  std::ranges::copy(std::as_bytes(std::span(values)), in.data() + shift);
  codec.encode(std::span(in).subspan(shift), std::span(out).subspan(shift), values.size());
  std::vector<std::uint16_t> codes(values.size());
  std::copy(out.begin() + static_cast<std::ptrdiff_t>(shift), out.end(),
            std::as_writable_bytes(std::span(codes)).begin());
  return codes;
}

TEST(Bfloat16Codec, HalvesTheBytes) {
  EXPECT_EQ(bfloat16_codec().encoded_bytes(0), 0u);
  EXPECT_EQ(bfloat16_codec().encoded_bytes(7), 14u);
  EXPECT_EQ(bfloat16_codec().traits().decoded, DataType::kFloat32);
  EXPECT_FALSE(bfloat16_codec().traits().lossless);
  EXPECT_FALSE(bfloat16_codec().traits().sums_encoded);
}

TEST(Bfloat16Codec, DecodesEveryCodeToItsValueAndEncodesItBack) {
  std::vector<std::uint16_t> codes(65536);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i);
  std::vector<std::uint32_t> values(codes.size());
  bfloat16_codec().decode(std::as_bytes(std::span(codes)),
                          std::as_writable_bytes(std::span(values)), codes.size());
  const auto again = encode(values);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const float value = widen<Bfloat16>(codes[i]);
    ASSERT_EQ(values[i], std::bit_cast<std::uint32_t>(value)) << i;
    ASSERT_EQ(again[i], narrow<Bfloat16>(value)) << i;
    if (!std::isnan(value)) {
      ASSERT_EQ(again[i], codes[i]);
    }
  }
}

TEST(Bfloat16Codec, EncodesTiesAndTheirNeighboursAsTheScalarReference) {
  std::vector<std::uint32_t> values;
  for (std::uint32_t code = 0; code < 65536; ++code) {
    for (const std::uint32_t low : {0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      values.push_back(code << 16 | low);
    }
  }
  const auto codes = encode(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(codes[i], narrow<Bfloat16>(std::bit_cast<float>(values[i]))) << std::hex << values[i];
  }
}

TEST(Bfloat16Codec, EncodesAnyCountAtAnyAlignment) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (std::size_t count = 0; count < 200; ++count) {
    std::vector<std::uint32_t> values(count);
    for (std::uint32_t& value : values) value = random();
    const auto codes = encode(values, count % 5);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(codes[i], narrow<Bfloat16>(std::bit_cast<float>(values[i])));
    }
  }
}

}  // namespace
}  // namespace tutti
