#include "src/base/code_address.hpp"

#include <gmock/gmock.h>
#include <gnu/libc-version.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;

TEST(CodeAddress, IsTheModuleTheSymbolAndTheOffset) {
  const auto* const function = reinterpret_cast<const char*>(&gnu_get_libc_version);
  EXPECT_THAT(describe_code_address(function + 1),  // a function that no sanitizer replaces
              MatchesRegex(".*libc.*\\(gnu_get_libc_version\\+0x1\\)"));
}

TEST(CodeAddress, IsAnOffsetInTheModuleWhereTheSymbolIsNotExported) {
  const std::string text = describe_code_address(__builtin_return_address(0));
  EXPECT_THAT(text, MatchesRegex(".*\\(.*\\+0x[0-9a-f]+\\)"));
  EXPECT_THAT(text, HasSubstr("test"));  // this program
}

TEST(CodeAddress, IsTheAddressAloneOutsideOfCode) {
  const int local = 0;
  EXPECT_THAT(describe_code_address(&local), MatchesRegex("0x[0-9a-f]+"));
  EXPECT_THAT(describe_code_address(nullptr), EndsWith("0x0"));
}

}  // namespace
}  // namespace tutti
