#include "src/codec/rates.hpp"

#include <gtest/gtest.h>

#include "src/codec/make_format.hpp"

namespace tutti::codec {
namespace {

TEST(Rates, AreMeasuredOnce) {
  const auto format = make_format("int8:block=128");
  ASSERT_TRUE(format);
  const Rates rates = rates_of(**format, false);
  EXPECT_GT(rates.encode_ps, 0);
  EXPECT_GT(rates.decode_ps, 0);
  EXPECT_EQ(rates_of(**format, false).encode_ps, rates.encode_ps);
}

}  // namespace
}  // namespace tutti::codec
