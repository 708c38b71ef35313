#include "src/exec/converter.hpp"

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/float_formats.hpp"
#include "src/codec/make_format.hpp"

namespace tutti::exec {
namespace {

using FormatPointer = std::shared_ptr<const codec::Format>;

FormatPointer format_named(std::string_view name) {
  auto format = codec::make_format(name);
  EXPECT_TRUE(format) << name;
  return *format;
}

std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

std::byte* bytes_of(std::vector<float>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

std::vector<std::byte> encoded(const codec::Format& format, const std::vector<float>& values) {
  std::vector<std::byte> code(format.bytes(values.size()));
  format.encode(values.data(), values.size(), {}, code.data());
  return code;
}
std::vector<float> decoded(const codec::Format& format, const std::vector<std::byte>& code,
                           std::size_t count) {
  std::vector<float> values(count);
  EXPECT_TRUE(format.decode(code.data(), count, values.data()));
  return values;
}

class ConverterOf : public testing::TestWithParam<std::string> {
 protected:
  const FormatPointer format_ = format_named(GetParam());
  Converter converter_;
};

// Counts around a tile and a block, and one that fills neither.
constexpr std::size_t kCounts[] = {1, 127, 4096, 4097, 70000};

TEST_P(ConverterOf, AddsPlainAndCodedInOrderAndEncodesOnce) {
  for (const std::size_t count : kCounts) {
    std::vector<std::vector<float>> inputs;
    for (unsigned s = 0; s < 7; ++s) inputs.push_back(random_values(count, s));
    std::vector<std::vector<std::byte>> codes;
    for (const auto& input : inputs) codes.push_back(encoded(*format_, input));
    std::vector<CodedSource> sources;
    std::vector<float> expected(count);
    for (std::size_t s = 0; s < inputs.size(); ++s) {
      const bool plain = s % 3 == 1;
      sources.push_back(plain ? CodedSource{bytes_of(inputs[s]), nullptr}
                              : CodedSource{codes[s].data(), format_.get()});
      const auto values = plain ? inputs[s] : decoded(*format_, codes[s], count);
      for (std::size_t i = 0; i < count; ++i)
        expected[i] = s == 0 ? values[i] : expected[i] + values[i];
    }
    for (float& value : expected) value /= 7;

    std::vector<float> plain(count), other(count);
    std::vector<std::byte> code(format_->bytes(count)), second(code.size());
    const std::vector<CodedDestination> destinations = {{{bytes_of(plain)}, nullptr},
                                                        {{code.data()}, format_.get()},
                                                        {{bytes_of(other)}, nullptr},
                                                        {{second.data()}, format_.get()}};
    Reduction average;
    average.op = ReduceOp::kAvg;
    average.divisor = 7;
    const auto valid = converter_.combine(average, sources, destinations, count, {});
    ASSERT_TRUE(valid && *valid);
    EXPECT_EQ(plain, expected) << count;
    EXPECT_EQ(other, expected);
    EXPECT_EQ(code, encoded(*format_, expected));
    EXPECT_EQ(second, code);
  }
}

TEST_P(ConverterOf, CopiesTheCodeWhereTheFormatStays) {
  for (const std::size_t count : kCounts) {
    const auto code = encoded(*format_, random_values(count, 1));
    const CodedSource source{code.data(), format_.get()};
    std::vector<std::byte> copy(code.size());
    std::vector<float> values(count);
    const std::vector<CodedDestination> both = {{{copy.data()}, format_.get()},
                                                {{bytes_of(values)}, nullptr}};
    const auto valid = converter_.combine({}, {&source, 1}, both, count, {});
    ASSERT_TRUE(valid && *valid);
    EXPECT_EQ(copy, code);
    EXPECT_EQ(values, decoded(*format_, code, count));
  }
}

/// Fused or not, the bits are those of a sum that was stored and read back.
TEST_P(ConverterOf, RoundsToTheTypeBeforeItEncodes) {
  constexpr std::size_t kCount = 5000;
  const FormatPointer half = format_named("bf16");
  const auto a = encoded(*half, random_values(kCount, 1)),
             b = encoded(*half, random_values(kCount, 2));
  const CodedSource sources[] = {{a.data(), nullptr}, {b.data(), nullptr}};
  Reduction sum;
  sum.type = DataType::kBfloat16;
  std::vector<std::byte> stored(half->bytes(kCount)), code(format_->bytes(kCount));
  auto fused = code;
  const CodedDestination to_type{{stored.data()}, nullptr}, to_code{{code.data()}, format_.get()},
      to_fused{{fused.data()}, format_.get()};
  ASSERT_TRUE(*converter_.combine(sum, sources, {&to_type, 1}, kCount, {}));
  const CodedSource again{stored.data(), nullptr};
  ASSERT_TRUE(*converter_.combine(sum, {&again, 1}, {&to_code, 1}, kCount, {}));
  ASSERT_TRUE(*converter_.combine(sum, sources, {&to_fused, 1}, kCount, {}));
  EXPECT_EQ(fused, code);
}

INSTANTIATE_TEST_SUITE_P(Formats, ConverterOf,
                         testing::Values("bf16", "int8:block=32", "int4:block=8192", "mxfp8",
                                         "nvfp4", "sign", "topk:k=10%:block=65536"),
                         [](const auto& name) {
                           std::string text = name.param;
                           for (char& c : text)
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           return text;
                         });

TEST(Converter, TellsThatACodeIsInvalid) {
  const FormatPointer format = format_named("topk:k=2:block=32");
  std::vector<std::byte> code(format->bytes(32), std::byte{0xff});  // places beyond the block
  std::vector<float> values(32);
  const CodedSource source{code.data(), format.get()};
  const CodedDestination destination{{bytes_of(values)}, nullptr};
  Converter converter;
  const auto valid = converter.combine({}, {&source, 1}, {&destination, 1}, 32, {});
  ASSERT_TRUE(valid);
  EXPECT_FALSE(*valid);
}

}  // namespace
}  // namespace tutti::exec
