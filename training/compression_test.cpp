#include "training/compression.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::training {
namespace {

using ::testing::HasSubstr;
using Method = GradientCompression::Method;

TEST(GradientCompression, IsReadFromWords) {
  EXPECT_FALSE(parse_gradient_compression("")->is_on());
  EXPECT_FALSE(parse_gradient_compression("none")->is_on());
  const auto int8 = *parse_gradient_compression("int8:block=64");
  EXPECT_EQ(int8, (GradientCompression{.method = Method::kFormat, .format = "int8:block=64"}));
  EXPECT_FALSE(int8.owes());
  const auto owing = *parse_gradient_compression("int4:errors=feedback:block=64");
  EXPECT_EQ(owing.format, "int4:block=64");
  EXPECT_TRUE(owing.owes());
  const auto largest = *parse_gradient_compression("topk:0.025:block=1024");
  EXPECT_EQ(largest.method, Method::kMomentum);
  EXPECT_EQ(largest.format, "topk:k=2.5%:block=1024");
  EXPECT_TRUE(largest.owes() && largest.has_own_momentum());
  EXPECT_EQ(parse_gradient_compression("topk:k=7")->format, "topk:k=7");
  const auto dropped = *parse_gradient_compression("topk:0.01:errors=dropped");
  EXPECT_EQ(dropped.format, "topk:k=1%");
  EXPECT_FALSE(dropped.owes());
  const auto signs = *parse_gradient_compression("onebit");
  EXPECT_EQ(signs.format, "sign");
  EXPECT_TRUE(signs.owes());
  EXPECT_FALSE(signs.has_own_momentum());
  EXPECT_EQ(parse_gradient_compression("powersgd")->rank, 1);
  EXPECT_EQ(parse_gradient_compression("powersgd:4")->rank, 4);
}

TEST(GradientCompression, NamesTheWordThatIsWrong) {
  const auto refused = [](const char* text) {
    const auto parsed = parse_gradient_compression(text);
    return parsed ? "" : parsed.error().what;
  };
  EXPECT_THAT(refused("topk:1.5"), HasSubstr("above 0 and at most 1"));
  EXPECT_THAT(refused("topk:0"), HasSubstr("'topk:0'"));
  EXPECT_THAT(refused("topk:nan"), HasSubstr("above 0"));
  EXPECT_THAT(refused("topk:much"), HasSubstr("topk:0.01"));
  EXPECT_THAT(refused("onebit:2"), HasSubstr("no settings"));
  EXPECT_THAT(refused("powersgd:0"), HasSubstr("from 1 to"));
  EXPECT_THAT(refused("powersgd:two"), HasSubstr("powersgd:2"));
  EXPECT_THAT(refused("int9"), HasSubstr("int8"));
  EXPECT_THAT(refused("int8:block=33"), HasSubstr("block=33"));
}

TEST(WireSize, CountsBytes) {
  const auto plain = *WireSize::create("", DataType::kBfloat16);
  EXPECT_TRUE(plain.is_plain());
  EXPECT_EQ(plain.bytes(10), 20U);
  EXPECT_EQ(plain.shared(10), 0U);
  const auto small = *WireSize::create("int8:block=128", DataType::kFloat32);
  EXPECT_EQ(small.bytes(256), 260U);
  EXPECT_EQ(small.shared(256), 4U);
  EXPECT_EQ(small.plain(256), 1024U);
  EXPECT_EQ(small.block(), 128U);
  EXPECT_EQ(small.text(), "int8:block=128:scale=fp16");
  EXPECT_THAT(WireSize::create("fp16", DataType::kFloat16).error().what,
              HasSubstr("no fewer bytes"));
}

}  // namespace
}  // namespace tutti::training
