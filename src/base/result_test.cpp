#include "src/base/result.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return make_error(Code::kInvalidArgument, "{} is odd", value);
  return value / 2;
}

Result<int> quarter(int value) {
  TUTTI_ASSIGN(const int once, half(value));
  return half(once);
}

Status checked(int value) {
  TUTTI_CHECK(value > 0, "value={}", value);
  return ok_status();
}

TEST(Result, CarriesAValue) { EXPECT_EQ(*quarter(8), 2); }

TEST(Result, PropagatesTheFirstError) {
  const Result<int> result = quarter(6);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kInvalidArgument);
  EXPECT_EQ(result.error().what, "3 is odd");
}

TEST(Result, ABrokenInvariantIsAnInternalErrorWithTheValues) {
  EXPECT_TRUE(checked(1));
  const Status status = checked(-4);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kInternal);
  EXPECT_NE(status.error().what.find("value > 0"), std::string::npos);
  EXPECT_NE(status.error().what.find("value=-4"), std::string::npos);
}

TEST(Result, ASystemErrorNamesTheErrno) {
  const Error error = system_error(Code::kUnavailable, 2, "open(/nowhere)");
  EXPECT_EQ(error.os_errno, 2);
  EXPECT_EQ(error.what, "open(/nowhere): No such file or directory (errno 2)");
}

}  // namespace
}  // namespace tutti
