#include "src/base/code_address.hpp"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;

TEST(CodeAddress, IsTheModuleTheSymbolAndTheOffset) {
  const auto* const function = reinterpret_cast<const char*>(&std::abort);
  EXPECT_THAT(describe_code_address(function + 1), MatchesRegex(".*libc.*\\(abort\\+0x1\\)"));
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
