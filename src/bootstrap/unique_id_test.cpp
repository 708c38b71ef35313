#include "src/bootstrap/unique_id.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

using testing::HasSubstr;

UniqueId example() {
  UniqueId id;
  id.job = 0x1234;
  id.key = random_key();
  id.addresses = {*parse_address("10.0.0.1:29500"), *parse_address("[2001:db8::7]:1")};
  return id;
}

TEST(UniqueId, RoundTrips) {
  const UniqueId id = example();
  const auto back = decode_unique_id(encode(id));
  ASSERT_TRUE(back) << back.error().what;
  EXPECT_EQ(*back, id);
}

TEST(UniqueId, EveryFlippedBitIsNoticed) {
  const UniqueIdBytes good = encode(example());
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    UniqueIdBytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    const auto result = decode_unique_id(bad);
    ASSERT_FALSE(result) << "bit " << bit;
    EXPECT_EQ(result.error().code, Code::kInvalidArgument);
  }
}

TEST(UniqueId, SaysPreciselyWhatIsWrong) {
  UniqueIdBytes bytes{};
  EXPECT_THAT(decode_unique_id(bytes).error().what, HasSubstr("all zeros"));
  random_bytes(bytes);
  EXPECT_THAT(decode_unique_id(bytes).error().what, HasSubstr("another library"));
  bytes = encode(example());
  EXPECT_THAT(decode_unique_id(std::span(bytes).first(100)).error().what, HasSubstr("100 bytes"));
  bytes[8] = std::byte{7};
  EXPECT_THAT(decode_unique_id(bytes).error().what, HasSubstr("version 7"));
  bytes = encode(example());
  std::fill(bytes.begin() + 64, bytes.end(), std::byte{0});
  EXPECT_THAT(decode_unique_id(bytes).error().what, HasSubstr("checksum"));
}

TEST(UniqueId, TwoNeverShareAKey) { EXPECT_NE(example().key, example().key); }

}  // namespace
}  // namespace tutti
