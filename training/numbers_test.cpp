#include "training/numbers.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>

namespace tutti::training {
namespace {

std::uint16_t half_of(DataType type, float value) {
  std::array<std::byte, 2> bytes = {};
  write_as(type, std::span(&value, 1), bytes);
  return std::bit_cast<std::uint16_t>(bytes);
}

TEST(Numbers, RoundToNearestAndTiesToEven) {
  EXPECT_EQ(half_of(DataType::kBfloat16, 1.0F), 0x3f80);
  EXPECT_EQ(half_of(DataType::kBfloat16, 1.00390625F), 0x3f80);  // halfway, to even
  EXPECT_EQ(half_of(DataType::kBfloat16, 1.01171875F), 0x3f82);  // halfway, to even
  EXPECT_EQ(half_of(DataType::kBfloat16, -1.005F), 0xbf81);
  EXPECT_EQ(half_of(DataType::kFloat16, 1.0F), 0x3c00);
  EXPECT_EQ(half_of(DataType::kFloat16, 65504.0F), 0x7bff);
  EXPECT_EQ(half_of(DataType::kFloat16, 1e6F), 0x7c00);  // infinite
}

TEST(Numbers, KeepInfinitiesAndNoNumbers) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const DataType type : {DataType::kBfloat16, DataType::kFloat16}) {
    const std::array<float, 4> values = {kInfinity, -kInfinity,
                                         std::numeric_limits<float>::quiet_NaN(),
                                         std::bit_cast<float>(0x7f800001U)};
    std::array<std::byte, 8> halves = {};
    write_as(type, values, halves);
    std::array<float, 4> back = {};
    read_as(type, halves, back);
    EXPECT_EQ(back[0], kInfinity);
    EXPECT_EQ(back[1], -kInfinity);
    EXPECT_TRUE(std::isnan(back[2]));
    EXPECT_TRUE(std::isnan(back[3]));
  }
}

TEST(Numbers, ComeBackAsTheyWereFromEveryHalf) {
  for (const DataType type : {DataType::kBfloat16, DataType::kFloat16})
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto half = static_cast<std::uint16_t>(bits);
      float value = 0;
      read_as(type, std::as_bytes(std::span(&half, 1)), std::span(&value, 1));
      if (std::isnan(value)) continue;
      ASSERT_EQ(half_of(type, value), half);
    }
}

TEST(Numbers, AddUpInFloat32) {
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat16}) {
    const std::vector<float> values = {0.5F, -2, 3};
    std::vector<std::byte> bytes(3 * bytes_of(type));
    write_as(type, values, bytes);
    std::vector<float> sums = {1e-3F, 1, 1};
    add_as(type, bytes, sums);
    EXPECT_THAT(sums, ::testing::ElementsAre(0.5F + 1e-3F, -1, 4));
  }
}

}  // namespace
}  // namespace tutti::training
