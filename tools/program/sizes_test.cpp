#include "tools/program/sizes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Sizes, ReadsBinarySuffixes) {
  EXPECT_EQ(*parse_size("0"), 0u);
  EXPECT_EQ(*parse_size("8"), 8u);
  EXPECT_EQ(*parse_size("4K"), 4096u);
  EXPECT_EQ(*parse_size("16m"), 16u << 20);
  EXPECT_EQ(*parse_size("2GB"), 2ull << 30);
}

TEST(Sizes, RefusesWhatIsNotASize) {
  for (const char* text :
       {"", "K", "-1", "8X", "8KK", "1.5M", "99999999999999999999", "20000000000G"}) {
    const auto size = parse_size(text);
    ASSERT_FALSE(size) << text;
    EXPECT_THAT(size.error().what, HasSubstr(text));
  }
}

TEST(Sizes, WritesWhatItReads) {
  for (const std::size_t size : {0, 1, 8, 1023, 1024, 1536, 1 << 20, 3 << 20}) {
    EXPECT_EQ(*parse_size(size_text(size)), size);
  }
  EXPECT_EQ(size_text(16 << 20), "16M");
}

TEST(Sizes, Multiply) { EXPECT_THAT(*sizes_of({8, 600, 0, 8}), ElementsAre(8, 64, 512)); }
TEST(Sizes, Add) { EXPECT_THAT(*sizes_of({10, 35, 10, 1}), ElementsAre(10, 20, 30)); }
TEST(Sizes, OneSizeNeedsNoStep) { EXPECT_THAT(*sizes_of({64, 64, 0, 1}), ElementsAre(64)); }
TEST(Sizes, LeaveZero) { EXPECT_THAT(*sizes_of({0, 5, 0, 2}), ElementsAre(0, 1, 2, 4)); }
TEST(Sizes, StopAtTheTopOfTheNumberRange) {
  const std::size_t top = ~std::size_t{0};
  EXPECT_THAT(*sizes_of({top / 2, top - 1, 0, 3}), ElementsAre(top / 2));
  EXPECT_THAT(*sizes_of({top - 3, top - 1, 10, 1}), ElementsAre(top - 3));
}

TEST(Sizes, RefuseARangeThatNeverEnds) {
  EXPECT_FALSE(sizes_of({8, 64, 0, 1}));
  EXPECT_FALSE(sizes_of({64, 8, 1, 1}));
  EXPECT_FALSE(sizes_of({0, 1 << 30, 1, 1}));
}

}  // namespace
}  // namespace tutti::tools
