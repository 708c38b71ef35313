// Every format against a definition of its own in double, bit for bit between compiled loops, and
// within the bounds that it states.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/float_formats.hpp"
#include "src/base/sanitized.hpp"
#include "src/codec/elements.hpp"
#include "src/codec/make_format.hpp"

namespace tutti::codec {
namespace {

using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

const std::vector<std::string>& all_formats() {
  static const std::vector<std::string> specs{
      "bf16",
      "fp16",
      "int8",
      "int8:block=32:scale=fp32",
      "int8:block=8192",
      "int8a",
      "int8a:block=256:scale=fp32",
      "int4",
      "int4:block=1024:scale=fp32",
      "int4a",
      "int4a:block=64:scale=fp32",
      "bfp16",
      "bfp8",
      "e4m3",
      "e4m3:block=32:scale=fp32",
      "e5m2",
      "e5m2:block=512:scale=fp32",
      "mxfp8",
      "mxfp8e5m2",
      "mxfp4",
      "mxint8",
      "nvfp4",
      "sign",
      "topk",
      "topk:k=7:block=64",
      "topk:k=100%:block=32",
  };
  return specs;
}

std::shared_ptr<const Format> format_of(const std::string& spec, Loops loops = Loops::kBest) {
  auto format = make_format(spec, loops);
  EXPECT_TRUE(format) << spec;
  return *format;
}

std::vector<std::byte> encode(const Format& format, const std::vector<float>& values,
                              const Rounding& rounding = {}) {
  std::vector<std::byte> bytes(format.bytes(values.size()), std::byte{0xa5});
  format.encode(values.data(), values.size(), rounding, bytes.data());
  return bytes;
}
std::vector<float> decode(const Format& format, const std::vector<std::byte>& bytes,
                          std::size_t count) {
  std::vector<float> values(count, 1e9F);
  EXPECT_TRUE(format.decode(bytes.data(), count, values.data()));
  return values;
}
std::vector<float> through(const Format& format, const std::vector<float>& values,
                           const Rounding& rounding = {}) {
  return decode(format, encode(format, values, rounding), values.size());
}

/// Values as in a gradient: most are small, a few are large; among them zeros of both signs.
std::vector<float> gradient(std::size_t count, unsigned seed, float magnitude = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) {
    value = normal(random) * magnitude;
    if (random() % 50 == 0) value *= 20;
    if (random() % 40 == 0) value = random() % 2 == 0 ? 0.0F : -0.0F;
  }
  return values;
}

class EveryFormat : public ::testing::TestWithParam<std::string> {
 protected:
  std::shared_ptr<const Format> format_ = format_of(GetParam());
  std::size_t block_ = format_->traits().block;
};

INSTANTIATE_TEST_SUITE_P(Codec, EveryFormat, ::testing::ValuesIn(all_formats()),
                         [](const auto& spec) {
                           std::string name = spec.param;
                           std::ranges::replace(name, '%', 'P');
                           std::erase_if(name, [](char c) { return !std::isalnum(c); });
                           return name;
                         });

TEST_P(EveryFormat, IsMadeAgainFromItsName) {
  EXPECT_EQ(format_of(format_->traits().name)->traits().name, format_->traits().name);
}

TEST_P(EveryFormat, StatesItsBytes) {
  EXPECT_EQ(format_->bytes(0), 0U);
  const std::size_t blocks = 10;
  EXPECT_DOUBLE_EQ(static_cast<double>(format_->bytes(blocks * block_)) * 8,
                   format_->traits().bits * static_cast<double>(blocks * block_));
  for (std::size_t count = 1; count < 2 * block_; count += 1 + count / 10)
    EXPECT_LE(format_->bytes(count), format_->bytes(count + 1));
}

TEST_P(EveryFormat, StaysWithinItsBound) {
  const FormatTraits& traits = format_->traits();
  for (const float magnitude : {1.0F, 1e-4F, 3e-7F, 100.0F, 1e-30F}) {
    for (const std::size_t count : {std::size_t{1}, block_ - 1, block_, 3 * block_ + 5}) {
      const std::vector<float> values = gradient(count, 7, magnitude);
      std::vector<double> largest_of_block(count / block_ + 1, 0.0);
      for (std::size_t i = 0; i < count; ++i) {
        double& largest = largest_of_block[i / block_];
        largest = std::max(largest, std::abs(double{values[i]}));
      }
      for (const bool random : {false, true}) {
        const std::vector<float> decoded = through(*format_, values, {random, 99, 0});
        for (std::size_t i = 0; i < count; ++i) {
          const double largest = largest_of_block[i / block_];
          if (largest > traits.largest) continue;
          const double bound = (traits.error * largest + traits.least) * (random ? 2 : 1);
          ASSERT_LE(std::abs(double{decoded[i]} - values[i]), bound)
              << "value " << values[i] << " at " << i << " of " << count << ", random " << random;
        }
      }
    }
  }
}

TEST_P(EveryFormat, GivesTheSameBytesFromAllLoops) {
  const auto baseline = format_of(GetParam(), Loops::kBaseline);
  const auto scalar = format_of(GetParam(), Loops::kScalar);
  for (std::size_t count = 1; count <= 2 * block_ + 40; count += 1 + count / 3) {
    std::vector<float> values = gradient(count, static_cast<unsigned>(count));
    if (count % 3 == 0) values[count / 2] = kNan;
    if (count % 3 == 1) values[count / 3] = -kInfinity;
    for (const bool random : {false, true}) {
      const Rounding rounding{random, 0x123456789abcdef, 4096};
      const std::vector<std::byte> bytes = encode(*format_, values, rounding);
      ASSERT_EQ(bytes, encode(*baseline, values, rounding)) << count;
      ASSERT_EQ(bytes, encode(*scalar, values, rounding)) << count;
      const std::vector<float> decoded = decode(*format_, bytes, count);
      ASSERT_EQ(0, std::memcmp(decoded.data(), decode(*baseline, bytes, count).data(), count * 4));
      ASSERT_EQ(0, std::memcmp(decoded.data(), decode(*scalar, bytes, count).data(), count * 4));
    }
  }
}

// So slices may begin at any multiple of a block.
TEST_P(EveryFormat, EncodesBlocksByThemselves) {
  const std::size_t count = 3 * block_ + 3;
  const std::vector<float> values = gradient(count, 3);
  for (const bool random : {false, true}) {
    std::vector<std::byte> parts;
    for (std::size_t begin = 0; begin < count; begin += block_) {
      const std::vector<float> part(
          values.begin() + static_cast<std::ptrdiff_t>(begin),
          values.begin() + static_cast<std::ptrdiff_t>(std::min(count, begin + block_)));
      const std::vector<std::byte> bytes = encode(*format_, part, {random, 5, begin});
      parts.insert(parts.end(), bytes.begin(), bytes.end());
    }
    EXPECT_EQ(parts, encode(*format_, values, {random, 5, 0}));
  }
}

TEST_P(EveryFormat, TakesAnyAddress) {
  const std::size_t count = block_ + 9;
  const std::vector<float> values = gradient(count, 4);
  const std::vector<std::byte> expected = encode(*format_, values);
  for (std::size_t shift = 1; shift < 8; ++shift) {
    std::vector<std::byte> bytes(expected.size() + shift);
    format_->encode(values.data(), count, {}, bytes.data() + shift);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                           bytes.begin() + static_cast<std::ptrdiff_t>(shift)));
    std::vector<float> decoded(count);
    EXPECT_TRUE(format_->decode(bytes.data() + shift, count, decoded.data()));
    EXPECT_EQ(decoded, decode(*format_, expected, count));
  }
}

TEST_P(EveryFormat, ShowsNanAndInfinity) {
  for (const float special : {kNan, kInfinity, -kInfinity}) {
    std::vector<float> values = gradient(block_ + 1, 5);
    values[block_ / 2] = special;
    const std::vector<float> decoded = through(*format_, values);
    EXPECT_FALSE(std::isfinite(decoded[block_ / 2])) << special;
    EXPECT_TRUE(std::isfinite(decoded[block_])) << "the next block";
  }
}

TEST_P(EveryFormat, KeepsZeros) {
  const std::vector<float> zeros(block_ + 1, 0.0F);
  EXPECT_EQ(through(*format_, zeros), zeros);
}

TEST_P(EveryFormat, TakesDenormalAndLargestValues) {
  std::vector<float> values(block_);
  for (std::size_t i = 0; i < block_; ++i) values[i] = float_of(static_cast<std::uint32_t>(i % 3));
  for (const float decoded : through(*format_, values)) EXPECT_LE(std::abs(decoded), 1e-6F);
  for (float& value : values) value = static_cast<float>(format_->traits().largest);
  for (const float decoded : through(*format_, values))
    EXPECT_LE(std::abs(decoded / values[0] - 1), format_->traits().error * 1.01 + 1e-6);
}

TEST_P(EveryFormat, RoundsAtRandomWithoutBias) {
  const std::vector<float> values = gradient(block_, 11);
  if (GetParam() == "sign" || GetParam().starts_with("topk")) {  // these round nothing
    EXPECT_EQ(encode(*format_, values, {true, 1, 0}), encode(*format_, values));
    return;
  }
  std::vector<double> sums(block_, 0);
  constexpr int kRepetitions = 400;
  double square = 0;
  for (int call = 0; call < kRepetitions; ++call) {
    const std::vector<float> decoded =
        through(*format_, values, {true, static_cast<std::uint64_t>(call) * 0x9e3779b97f4a7c15, 0});
    for (std::size_t i = 0; i < block_; ++i) {
      sums[i] += decoded[i] - double{values[i]};
      square += std::pow(decoded[i] - double{values[i]}, 2);
    }
  }
  // The sum of all errors of a fair rounding is within a few standard deviations of 0. Values that
  // saturate (Microscaling) are not fair, and are few.
  const double total = std::accumulate(sums.begin(), sums.end(), 0.0);
  EXPECT_LT(std::abs(total), 6 * std::sqrt(square)) << std::sqrt(square);
}

TEST_P(EveryFormat, RepeatsWhatWasRandom) {
  const std::vector<float> values = gradient(block_, 12);
  EXPECT_EQ(encode(*format_, values, {true, 1, 0}), encode(*format_, values, {true, 1, 0}));
  if (GetParam() == "sign" || GetParam().starts_with("topk")) return;
  EXPECT_NE(encode(*format_, values, {true, 1, 0}), encode(*format_, values, {true, 2, 0}));
}

// Whatever a peer sends is read within its bounds.
TEST_P(EveryFormat, DecodesAnyBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    const std::size_t count = 1 + random() % (2 * block_);
    const std::size_t size = format_->bytes(count);
    const auto bytes = std::make_unique<std::byte[]>(size);  // exactly as long, for sanitizers
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(random());
    std::vector<float> values(count);
    const bool valid = format_->decode(bytes.get(), count, values.data());
    if (!GetParam().starts_with("topk")) {
      EXPECT_TRUE(valid);
    }
  }
}

// --- single formats, by definitions of their own ---

TEST(Halves, AreTheFormatsOfTheTypes) {
  std::mt19937 random(2);
  std::vector<float> values;
  for (int i = 0; i < 200'000; ++i) values.push_back(float_of(random()));
  for (std::uint32_t code = 0; code < 65536; ++code) {
    values.push_back(widen<Float16>(static_cast<std::uint16_t>(code)));
    values.push_back(std::nextafter(values.back(), 1e9F));
  }
  const std::vector<std::byte> bf16 = encode(*format_of("bf16"), values);
  const std::vector<std::byte> fp16 = encode(*format_of("fp16"), values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t code;
    std::memcpy(&code, bf16.data() + 2 * i, 2);
    ASSERT_EQ(code, narrow<Bfloat16>(values[i])) << values[i];
    std::memcpy(&code, fp16.data() + 2 * i, 2);
    ASSERT_EQ(code, narrow<Float16>(values[i])) << values[i];
  }
}

TEST(Halves, WidenEveryCode) {
  std::vector<std::byte> bytes(2 * 65536);
  for (std::uint32_t code = 0; code < 65536; ++code) std::memcpy(bytes.data() + 2 * code, &code, 2);
  const std::vector<float> bf16 = decode(*format_of("bf16"), bytes, 65536);
  const std::vector<float> fp16 = decode(*format_of("fp16"), bytes, 65536);
  for (std::uint32_t code = 0; code < 65536; ++code) {
    const auto half = static_cast<std::uint16_t>(code);
    ASSERT_EQ(bits_of(bf16[code]), bits_of(widen<Bfloat16>(half)));
    ASSERT_EQ(bits_of(fp16[code]), bits_of(widen<Float16>(half))) << code;
  }
}

template <class Narrow>
void expect_narrow_as_defined() {
  for (std::uint32_t bits = 0; bits < 0x7f800000u; bits += 997) {
    const float value = float_of(bits);
    if (value > widen_finite<Narrow>(Narrow::kSpecial - 1)) break;
    ASSERT_EQ((narrow_finite<Narrow, false>(value, 0)), narrow<Narrow>(value)) << value;
    ASSERT_EQ((narrow_finite<Narrow, false>(-value, 0)), narrow<Narrow>(-value)) << value;
  }
  for (std::uint32_t code = 0; code < Narrow::kSpecial; ++code) {
    ASSERT_EQ(widen_finite<Narrow>(code), widen<Narrow>(static_cast<std::uint8_t>(code)));
    ASSERT_EQ(widen_finite<Narrow>(code | Narrow::kSign), -widen_finite<Narrow>(code));
  }
}
TEST(Elements, NarrowAsTheTypesDo) {
  expect_narrow_as_defined<Float8e4m3>();
  expect_narrow_as_defined<Float8e5m2>();
}

TEST(Elements, HaveTheValuesOfE2m1) {
  constexpr float kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (std::uint32_t code = 0; code < 8; ++code) {
    EXPECT_EQ(widen_finite<Float4e2m1>(code), kValues[code]);
    EXPECT_EQ((narrow_finite<Float4e2m1, false>(kValues[code], 0)), code);
    EXPECT_EQ((narrow_finite<Float4e2m1, false>(-kValues[code], 0)), code | 8);
  }
  const std::pair<float, std::uint32_t> ties[] = {{0.25F, 0}, {0.75F, 2}, {1.25F, 2}, {1.75F, 4},
                                                  {2.5F, 4},  {3.5F, 6},  {5.0F, 6}};
  for (const auto& [value, code] : ties)
    EXPECT_EQ((narrow_finite<Float4e2m1, false>(value, 0)), code) << value;
}

/// The codes of a block of integers by their definition: the scale first, as the format chose it.
TEST(Integers, RoundToTheNearestMultipleOfTheScale) {
  const auto format = format_of("int8:block=128:scale=fp32");
  const std::vector<float> values = gradient(128, 21);
  const std::vector<std::byte> bytes = encode(*format, values);
  float scale;
  std::memcpy(&scale, bytes.data(), 4);
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  EXPECT_GE(scale * 127, largest);
  EXPECT_LE(scale * 127, largest * 1.000001F);
  for (std::size_t i = 0; i < 128; ++i)
    EXPECT_EQ(static_cast<std::int8_t>(bytes[4 + i]),
              static_cast<std::int8_t>(std::lrint(double{values[i]} / scale)))
        << values[i];
}

TEST(BlockFloatingPoint, ScalesByTheLeastPowerOfTwoThatHoldsTheBlock) {
  const auto code_of = [](const char* spec, float largest) {
    const std::vector<float> values{0.0F, -largest, largest / 4};
    return static_cast<int>(encode(*format_of(spec), values)[0]) - 127;
  };
  EXPECT_EQ(code_of("bfp8", 127), 0);
  EXPECT_EQ(code_of("bfp8", std::nextafter(127.0F, 128.0F)), 1);
  EXPECT_EQ(code_of("bfp8", 63.5F), -1);
  EXPECT_EQ(code_of("bfp16", 32767), 0);
  EXPECT_EQ(code_of("bfp16", 32768), 1);
  EXPECT_EQ(code_of("bfp16", std::numeric_limits<float>::max()), 114);
  EXPECT_EQ(code_of("bfp16", 0x1p-140F), -126);
  EXPECT_EQ(code_of("bfp16", kInfinity), 128);
}

TEST(BlockFloatingPoint, RoundsToTheNearestMultipleOfTheScale) {
  const std::vector<float> values = gradient(512, 23);
  for (const int bits : {8, 16}) {
    const auto format = format_of("bfp" + std::to_string(bits));
    EXPECT_EQ(format->traits().network_bits, static_cast<unsigned>(bits));
    const std::vector<std::byte> bytes = encode(*format, values);
    ASSERT_EQ(bytes.size(), 1 + 512U * bits / 8);
    const double scale = std::ldexp(1.0, static_cast<int>(bytes[0]) - 127);
    const std::vector<float> decoded = decode(*format, bytes, 512);
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(decoded[i], std::lrint(values[i] / scale) * scale) << values[i];
  }
}

/// A value that is the largest integer times the scale stays, whatever is drawn.
TEST(Integers, AreLeftAsTheyAreByRandomRounding) {
  for (const auto& [spec, most] : {std::pair{"bfp16", 32767.0F},
                                   {"bfp8", 127.0F},
                                   {"int8:block=512:scale=fp32", 127.0F},
                                   {"int8a:block=512:scale=fp32", 255.0F}}) {
    const bool offset = std::string_view(spec).starts_with("int8a");
    std::vector<float> values(512, most);
    for (std::size_t i = 0; i < values.size(); i += 2) values[i] = offset ? 0 : -most;
    for (std::size_t i = 1; i < values.size(); i += 4) values[i] = std::floor(most * 0.7F) + 1;
    for (std::uint32_t key = 0; key < 300; ++key)
      EXPECT_EQ(through(*format_of(spec), values, {.random = true, .key = key}), values)
          << spec << " key " << key;
  }
}

TEST(Integers, CountFromTheLeastValueWithAnOffset) {
  std::vector<float> values(32);
  for (std::size_t i = 0; i < 32; ++i) values[i] = 1000 + static_cast<float>(i) / 31;
  const std::vector<float> decoded = through(*format_of("int8a:block=32:scale=fp32"), values);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_NEAR(decoded[i], values[i], 0.5 / 255 + 1e-4);
}

TEST(Integers, TakesRangesOfOneSign) {
  for (const float sign : {1.0F, -1.0F})
    for (const std::string spec : {"int8a", "int4a", "int4a:scale=fp32"}) {
      std::vector<float> values(64);
      for (std::size_t i = 0; i < 64; ++i) values[i] = sign * (5 + static_cast<float>(i) * 0.01F);
      const std::vector<float> decoded = through(*format_of(spec), values);
      for (std::size_t i = 0; i < 64; ++i) EXPECT_NEAR(decoded[i], values[i], 0.05) << spec;
    }
}

// Then the scale is NaN, and codes made of NaN would be the processor's choice.
TEST(Integers, HaveCodesOfZeroWhereTheRangeIsNoFloat) {
  const std::vector<float> values{-3e38F, 3e38F, 1, 2, 3e38F, 0, -1, -3e38F};
  for (const char* const spec : {"int8a:scale=fp32", "int4a:scale=fp32"}) {
    const auto format = format_of(spec);
    const std::vector<std::byte> bytes = encode(*format, values);
    constexpr std::size_t kScaleAndLeast = 8;
    for (std::size_t i = kScaleAndLeast; i < bytes.size(); ++i)
      EXPECT_EQ(bytes[i], std::byte{0}) << spec << ", byte " << i;
    for (const float decoded : decode(*format, bytes, values.size()))
      EXPECT_TRUE(std::isnan(decoded)) << spec;
  }
}

TEST(Microscaling, ScalesByPowersOfTwo) {
  std::vector<float> values(32, 0.0F);
  values[3] = 5.0F;  // 1.25 * 2^2
  EXPECT_EQ(encode(*format_of("mxfp8"), values)[0], std::byte{127 + 2 - 8});
  EXPECT_EQ(encode(*format_of("mxfp8e5m2"), values)[0], std::byte{127 + 2 - 15});
  EXPECT_EQ(encode(*format_of("mxfp4"), values)[0], std::byte{127 + 2 - 2});
  EXPECT_EQ(encode(*format_of("mxint8"), values)[0], std::byte{127 + 2});
  for (const std::string spec : {"mxfp8", "mxfp8e5m2", "mxint8"})
    EXPECT_EQ(through(*format_of(spec), values)[3], 5.0F) << spec;
  EXPECT_EQ(through(*format_of("mxfp4"), values)[3], 4.0F) << "ties go to even";
}

TEST(Microscaling, ReadsTheSmallestAndTheNanScale) {
  const auto format = format_of("mxint8");
  std::vector<std::byte> bytes(33, std::byte{64});  // elements of 1
  bytes[0] = std::byte{0};
  EXPECT_EQ(decode(*format, bytes, 32)[0], 0x1p-127F);
  bytes[0] = std::byte{255};
  EXPECT_TRUE(std::isnan(decode(*format, bytes, 32)[0]));
}

TEST(Sign, TakesTheMeanMagnitude) {
  std::vector<float> values(8192);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = (i % 3 == 0 ? -1.0F : 1.0F) * static_cast<float>(1 + i % 4) * (i < 4096 ? 1 : 8);
  const std::vector<float> decoded = through(*format_of("sign"), values);
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(decoded[i], (i % 3 == 0 ? -2.5F : 2.5F) * (i < 4096 ? 1 : 8)) << i;
}

/// Of different distributions, by `seed`.
std::vector<float> for_top_k(std::size_t count, unsigned seed) {
  std::vector<float> values = gradient(count, seed);
  std::mt19937 random(seed);
  for (float& value : values) {
    if (seed % 6 == 1) value = std::round(value);  // many of one magnitude
    if (seed % 6 == 2) value = float_of(static_cast<std::uint32_t>(random()));
    if (seed % 6 == 3) value = random() % 2 == 0 ? 1.5F : -1.5F;
    if (seed % 6 == 4) value *= 1e-38F;  // beside a large one
  }
  if (seed % 6 == 4) values[count / 2] = 3e38F;
  if (seed % 6 == 5 && count > 2) values[1] = kNan;
  return values;
}

TEST(TopK, KeepsTheLargestMagnitudesAsTheyAre) {
  struct Case {
    std::size_t k, block;
    unsigned seeds;
  };
  for (const auto& [k, block, seeds] :
       {Case{41, 4096, 24}, Case{600, 4096, 24}, Case{4096, 4096, 6}, Case{656, 65536, 6}}) {
    const auto format = format_of(fmt::format("topk:k={}:block={}", k, block));
    for (const std::size_t count : {block, block + 904, std::size_t{1}, std::size_t{17}}) {
      for (unsigned seed = 0; seed < seeds; seed += kSanitized ? 6 : 1) {
        const std::vector<float> values = for_top_k(count, seed);
        const std::vector<float> decoded = through(*format, values);
        for (std::size_t begin = 0; begin < count; begin += block) {
          const std::size_t size = std::min(block, count - begin);
          const std::size_t kept = (size * k + block - 1) / block;
          std::vector<std::size_t> order(size);
          std::iota(order.begin(), order.end(), begin);
          std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
            return std::pair(magnitude_of(values[b]), a) < std::pair(magnitude_of(values[a]), b);
          });
          std::vector<float> expected(size, 0.0F);
          for (std::size_t i = 0; i < kept; ++i) expected[order[i] - begin] = values[order[i]];
          for (std::size_t i = 0; i < size; ++i)
            if (expected[i] != 0)
              ASSERT_EQ(bits_of(decoded[begin + i]), bits_of(expected[i])) << k << " " << seed;
            else
              ASSERT_EQ(decoded[begin + i], 0.0F) << k << " " << seed;
        }
      }
    }
  }
}

TEST(TopK, RefusesPlacesThatNobodySends) {
  const auto format = format_of("topk:k=2:block=32");
  const std::vector<std::byte> good = encode(*format, gradient(32, 1));
  std::vector<float> out(32);
  std::vector<std::byte> bad = good;
  bad[0] = std::byte{32};
  EXPECT_FALSE(format->decode(bad.data(), 32, out.data())) << "beyond the block";
  bad = good;
  std::copy_n(bad.begin(), 2, bad.begin() + 2);
  EXPECT_FALSE(format->decode(bad.data(), 32, out.data())) << "twice the same";
}

// --- names ---

TEST(MakeFormat, HasDefaultsAndShowsAllSettings) {
  EXPECT_EQ(format_of("int8")->traits().name, "int8:block=128:scale=fp16");
  EXPECT_EQ(format_of("fp8")->traits().name, "e4m3:block=128:scale=fp16");
  EXPECT_EQ(format_of("topk")->traits().name, "topk:k=41:block=4096");
  EXPECT_EQ(format_of("topk:block=1024:k=0.1%")->traits().name, "topk:k=2:block=1024");
  EXPECT_DOUBLE_EQ(format_of("int8")->traits().bits, 8.125);
  EXPECT_DOUBLE_EQ(format_of("int4")->traits().bits, 4.5);
  EXPECT_DOUBLE_EQ(format_of("mxfp4")->traits().bits, 4.25);
}

TEST(MakeFormat, MakesEveryKnownFormat) {
  for (const FormatSummary& known : known_formats())
    EXPECT_TRUE(make_format(known.name)) << known.name;
}

TEST(MakeFormat, NamesWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no format has this name"},
      {"int9", "did you mean int8?"},
      {"int8:block", "key=value was expected"},
      {"int8:=3", "key=value was expected"},
      {"int8:", "key=value was expected"},
      {"int8:block=100", "block=100: a power of two from 32 to 8192"},
      {"int8:block=16384", "block=16384"},
      {"int8:block=99999999999999999999", "a power of two"},
      {"int8:block=-32", "a power of two"},
      {"int8:block=32x", "block=32x"},
      {"int8:scale=bf16", "scale=bf16: fp16 or fp32"},
      {"int8:size=3", "no setting 'size'"},
      {"int8:block=32:block=64", "has it twice"},
      {"bf16:block=32", "no setting 'block'"},
      {"topk:k=0", "k=0"},
      {"topk:k=4097", "k=4097: 1 to 4096 values"},
      {"topk:k=0%", "k=0%"},
      {"topk:k=101%", "k=101%"},
      {"topk:k=1.5", "k=1.5"},
      {"topk:k=nan%", "k=nan%"},
      {"topk:k=", "k="},
  };
  for (const auto& [text, expected] : cases) {
    const auto format = make_format(text);
    ASSERT_FALSE(format) << text;
    EXPECT_EQ(format.error().code, Code::kInvalidArgument);
    EXPECT_THAT(format.error().what, HasSubstr(expected));
  }
}

}  // namespace
}  // namespace tutti::codec
