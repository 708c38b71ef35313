#include "src/base/crc32c.hpp"

#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace tutti {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Crc32c, GivesThePublishedValues) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283U);
  EXPECT_EQ(crc32c({}), 0U);
  const std::vector<std::byte> zeroes(32);
  EXPECT_EQ(crc32c(zeroes), 0x8a9136aaU);  // RFC 3720, B.4
  const std::vector<std::byte> ones(32, std::byte{0xff});
  EXPECT_EQ(crc32c(ones), 0x62a8ab43U);
}

TEST(Crc32c, TheTableAndTheInstructionAgreeAtAnyLengthAndPlace) {
  std::mt19937 random(1);
  std::vector<std::byte> data(300);
  for (std::byte& byte : data) byte = std::byte(random());
  for (std::size_t from = 0; from < 9; ++from)
    for (std::size_t length = 0; from + length <= data.size(); ++length) {
      const auto piece = std::span<const std::byte>(data).subspan(from, length);
      ASSERT_EQ(crc32c(piece, 7), crc32c_by_table(piece, 7)) << from << " " << length;
    }
}

TEST(Crc32c, GoesOnWhereItStopped) {
  EXPECT_EQ(crc32c(bytes_of("56789"), crc32c(bytes_of("1234"))), 0xe3069283U);
}

}  // namespace
}  // namespace tutti
