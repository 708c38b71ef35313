#include "src/codec/compression.hpp"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/codec/make_format.hpp"

namespace tutti::codec {
namespace {

using testing::HasSubstr;

TEST(CompressionInWords, IsReadBackAsItIsWritten) {
  for (const char* text :
       {"bf16", "int8:block=128:scale=fp16", "int4a:block=8192:scale=fp32:rounding=random:seed=7",
        "topk:k=65536:block=65536:errors=feedback", "sign:rounding=random:errors=feedback"}) {
    const auto compression = parse_compression(text);
    ASSERT_TRUE(compression) << compression.error().what;
    EXPECT_EQ(compression->text(), text);
  }
  const auto mixed = parse_compression("int8:rounding=nearest:block=64:errors=dropped");
  ASSERT_TRUE(mixed);
  EXPECT_EQ(mixed->text(), "int8:block=64:scale=fp16");
}

TEST(CompressionInWords, SaysWhatIsWrong) {
  const auto error = [](const char* text) {
    const auto compression = parse_compression(text);
    return compression ? std::string("none") : compression.error().what;
  };
  EXPECT_THAT(error("int8:rounding=up"), HasSubstr("rounding=up: nearest or random"));
  EXPECT_THAT(error("int8:errors=on"), HasSubstr("errors=on: feedback or dropped"));
  EXPECT_THAT(error("int8:seed=-1"), HasSubstr("seed=-1: a number"));
  EXPECT_THAT(error("int9"), HasSubstr("did you mean int8"));
  EXPECT_THAT(error("int8:block=3"), HasSubstr("block=3"));
  EXPECT_THAT(error(""), HasSubstr("no format has this name"));
}

/// Ranks see in the head of a message what its sender does.
TEST(CompressionCode, HoldsAllThatRanksAgreeOn) {
  std::set<std::uint32_t> codes{0};
  for (const FormatSummary& known : known_formats())
    for (const char* settings : {"", ":rounding=random", ":errors=feedback"}) {
      const auto compression = parse_compression(std::string(known.name) + settings);
      ASSERT_TRUE(compression);
      EXPECT_TRUE(codes.insert(code_of(*compression)).second) << compression->text();
      EXPECT_EQ(describe_code(code_of(*compression)), compression->text());
      EXPECT_TRUE(codes.insert(code_of(*compression, true)).second);
      EXPECT_EQ(describe_code(code_of(*compression, true)),
                compression->text() + " by TUTTI_COMPRESS");
    }
  for (const char* text : {"int8:block=32:scale=fp32", "int4:block=8192:scale=fp16",
                           "topk:k=1:block=32", "topk:k=65536:block=65536"}) {
    const auto compression = parse_compression(text);
    ASSERT_TRUE(compression);
    EXPECT_TRUE(codes.insert(code_of(*compression)).second);
    EXPECT_EQ(describe_code(code_of(*compression)), text);
  }
  EXPECT_EQ(describe_code(0), "no compression");
  EXPECT_EQ(describe_code(63), "an unknown compression");
  for (std::uint64_t code = 1; code <= 0xffffffff; code *= 3)
    EXPECT_NE(describe_code(static_cast<std::uint32_t>(code)), "");
}

}  // namespace
}  // namespace tutti::codec
