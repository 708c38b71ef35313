#include "src/switch/exponents.hpp"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/float_formats.hpp"

namespace tutti::in_network {
namespace {

constexpr DataType kScaledTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16};

std::uint32_t bits_at(DataType type, const std::vector<std::byte>& from, std::size_t i) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, from.data() + i * size_of(type), size_of(type));
  return bits;
}
void set_bits(DataType type, std::vector<std::byte>& to, std::size_t i, std::uint32_t bits) {
  std::memcpy(to.data() + i * size_of(type), &bits, size_of(type));
}
double value_of(DataType type, std::uint32_t bits) {
  if (type == DataType::kFloat16) return widen<Float16>(static_cast<std::uint16_t>(bits));
  if (type == DataType::kBfloat16) return widen<Bfloat16>(static_cast<std::uint16_t>(bits));
  return std::bit_cast<float>(bits);
}
double value_at(DataType type, const std::vector<std::byte>& from, std::size_t i) {
  return value_of(type, bits_at(type, from, i));
}
/// What takes all bits but the sign of the type's infinity.
std::uint32_t infinity_of(DataType type) {
  if (type == DataType::kFloat16) return Float16::kSpecial;
  return type == DataType::kBfloat16 ? std::uint32_t{Bfloat16::kSpecial} : 0x7f800000U;
}
std::uint32_t sign_of(DataType type) { return 1U << (size_of(type) * 8 - 1); }

Exponent exponent_of_one(DataType type, std::uint32_t bits) {
  std::vector<std::byte> values(3 * size_of(type));
  set_bits(type, values, 1, bits);
  return exponent_of(type, values.data(), 3);
}

TEST(Exponents, BoundEachValueStrictlyAndAsNarrowlyAsPowersOfTwoDo) {
  std::mt19937_64 random(1);
  for (const DataType type : kScaledTypes)
    for (int i = 0; i < 5000; ++i) {
      const auto magnitude = static_cast<std::uint32_t>(random()) & (sign_of(type) - 1);
      const std::uint32_t bits = magnitude | (i % 2 == 0 ? sign_of(type) : 0);
      const Exponent code = exponent_of_one(type, bits);
      EXPECT_TRUE(is_exponent(code));
      if (magnitude == 0 || magnitude >= infinity_of(type)) {
        EXPECT_EQ(code, magnitude == 0 ? kAllZero : kNotFinite);
        continue;
      }
      const double value = std::fabs(value_of(type, bits));
      EXPECT_LT(value, std::ldexp(1.0, code));
      EXPECT_GE(value, std::ldexp(1.0, code - 1));
    }
}

TEST(Exponents, KnowTheLimitsOfEachType) {
  EXPECT_EQ(exponent_of_one(DataType::kFloat32, 0), kAllZero);
  EXPECT_EQ(exponent_of_one(DataType::kFloat32, 0x80000000), kAllZero);
  EXPECT_EQ(exponent_of_one(DataType::kFloat32, 1), kLeastExponent);
  EXPECT_EQ(exponent_of_one(DataType::kFloat32, 0x7f7fffff), kGreatestExponent);
  EXPECT_EQ(exponent_of_one(DataType::kFloat32, 0x7f800000), kNotFinite);
  EXPECT_EQ(exponent_of_one(DataType::kFloat32, 0xff800001), kNotFinite);
  EXPECT_EQ(exponent_of_one(DataType::kFloat16, 1), -23);
  EXPECT_EQ(exponent_of_one(DataType::kFloat16, 0x7bff), 16);
  EXPECT_EQ(exponent_of_one(DataType::kBfloat16, 1), -132);
  EXPECT_EQ(exponent_of_one(DataType::kBfloat16, 0x7f7f), 128);
  EXPECT_LT(kAllZero, kLeastExponent);
  EXPECT_GT(kNotFinite, kGreatestExponent);
}

TEST(Quantised, TheGreatestValuesOfAllWorkersDoNotOverflow) {
  for (unsigned members = 1; members <= kMostMembers; ++members)
    for (const DataType type : kScaledTypes)
      for (const std::uint32_t sign : {0U, sign_of(type)}) {
        std::vector<std::byte> greatest(size_of(type));
        set_bits(type, greatest, 0, (infinity_of(type) - 1) | sign);
        const Exponent code = exponent_of(type, greatest.data(), 1);
        std::int32_t lane = 0;
        quantise(type, greatest.data(), step_of(code, members), std::span(&lane, 1));
        const std::int64_t sum = std::int64_t{lane} * members;
        EXPECT_LE(std::abs(sum), std::int64_t{0x7fffffff}) << members << " workers";
      }
}

/// The one rounding that a result may have: to the nearest value of the type.
bool is_nearest(DataType type, double exact, std::uint32_t bits) {
  const std::uint32_t magnitude = bits & (sign_of(type) - 1);
  const double sign = (bits & sign_of(type)) != 0 ? -1 : 1;
  if (exact != 0 && std::signbit(exact) != (sign < 0)) return false;
  exact = std::fabs(exact);
  const auto neighbour = [&](std::uint32_t at) {  // where infinity is, the next power of two
    if (at < infinity_of(type)) return value_of(type, at);
    return 2 * value_of(type, infinity_of(type) - 1) - value_of(type, infinity_of(type) - 2);
  };
  if (magnitude > infinity_of(type)) return false;
  const double here = neighbour(magnitude);
  if (magnitude == infinity_of(type) && exact > here) return true;
  const double off = std::fabs(here - exact);
  const bool even = magnitude % 2 == 0;
  for (const std::uint32_t next : {magnitude - 1, magnitude + 1}) {
    if (next > infinity_of(type)) continue;  // below zero, or beyond infinity
    const double other = std::fabs(neighbour(next) - exact);
    if (other < off || (other == off && !even)) return false;
  }
  return true;
}

/// Values of one chunk, their exponents near each other: most, or all, or none of their bits count.
std::vector<std::byte> random_values(DataType type, std::size_t count, std::mt19937_64& random) {
  std::vector<std::byte> values(count * size_of(type));
  const int mantissa = type == DataType::kFloat32 ? 23 : type == DataType::kFloat16 ? 10 : 7;
  const auto exponents = infinity_of(type) >> mantissa;
  const auto base = static_cast<std::uint32_t>(random() % exponents);
  for (std::size_t i = 0; i < count; ++i) {
    const auto below = static_cast<std::uint32_t>(random() % (random() % 40 + 1));
    const std::uint32_t exponent = base > below ? base - below : 0;
    const auto fraction = static_cast<std::uint32_t>(random()) & ((1U << mantissa) - 1);
    const std::uint32_t sign = random() % 2 == 0 ? sign_of(type) : 0;
    if (random() % 8 != 0) set_bits(type, values, i, sign | exponent << mantissa | fraction);
  }
  return values;
}

TEST(Quantised, SumsKeepTheStatedBoundAndAreRoundedOnce) {
  constexpr std::size_t kCount = 64;
  std::random_device device;
  const std::uint64_t seed = device();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    const DataType type = kScaledTypes[round % 3];
    const auto members = static_cast<unsigned>(1 + random() % (round % 7 == 0 ? 200 : 9));
    std::vector<std::int32_t> sums(kCount), lanes(kCount);
    std::vector<double> exact(kCount);
    std::vector<std::vector<std::byte>> inputs;
    Exponent greatest = kAllZero;
    for (unsigned worker = 0; worker < members; ++worker) {
      inputs.push_back(random_values(type, kCount, random));
      greatest = std::max(greatest, exponent_of(type, inputs.back().data(), kCount));
    }
    if (!has_steps(greatest)) continue;
    const double step = step_of(greatest, members);
    for (const auto& input : inputs) {
      quantise(type, input.data(), step, lanes);
      for (std::size_t i = 0; i < kCount; ++i) {
        const double value = value_at(type, input, i);
        ASSERT_LE(std::fabs(lanes[i] * step - value), step / 2);
        sums[i] += lanes[i];
        exact[i] += value;  // off by 2^-53 of the greatest sum at most, a step is 2^-31
      }
    }
    std::vector<std::byte> out(kCount * size_of(type));
    dequantise(type, std::as_bytes(std::span(sums)), step, out.data());
    const double bound = members * step / 2 * (1 + 0x1p-10);
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_LE(std::fabs(sums[i] * step - exact[i]), bound) << members << " workers";
      ASSERT_TRUE(is_nearest(type, sums[i] * step, bits_at(type, out, i)))
          << name_of(type) << " " << sums[i] << " steps of " << step << " became "
          << value_at(type, out, i);
    }
  }
}

TEST(Quantised, OneWorkerGetsItsValuesBack) {
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16})
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const Exponent code = exponent_of_one(type, bits);
      if (!has_steps(code)) continue;
      std::vector<std::byte> value(2);
      set_bits(type, value, 0, bits);
      std::int32_t lane = 0;
      quantise(type, value.data(), step_of(code, 1), std::span(&lane, 1));
      dequantise(type, std::as_bytes(std::span(&lane, 1)), step_of(code, 1), value.data());
      ASSERT_EQ(bits_at(type, value, 0), bits) << name_of(type);
    }
}

TEST(Quantised, SmallIntegersAddUpExactly) {
  std::mt19937_64 random(2);
  for (const unsigned members : {1U, 2U, 3U, 8U, 31U}) {
    std::vector<float> values(100);
    std::vector<std::int32_t> sums(100), lanes(100);
    std::vector<float> expected(100);
    const double step = step_of(11, members);
    for (unsigned worker = 0; worker < members; ++worker) {
      for (float& value : values) value = static_cast<float>(random() % 2001) - 1000;
      const auto bytes = std::as_bytes(std::span(values));
      quantise(DataType::kFloat32, bytes.data(), step, lanes);
      for (std::size_t i = 0; i < 100; ++i) sums[i] += lanes[i];
      for (std::size_t i = 0; i < 100; ++i) expected[i] += values[i];
    }
    std::vector<float> out(100);
    dequantise(DataType::kFloat32, std::as_bytes(std::span(sums)), step,
               std::as_writable_bytes(std::span(out)).data());
    EXPECT_EQ(out, expected);
  }
}

TEST(Quantised, ValuesThatSomebodyChangedMakeNoUndefinedBehaviour) {
  const float values[] = {INFINITY, -INFINITY, NAN, 3e38F};
  std::int32_t lanes[4];
  quantise(DataType::kFloat32, std::as_bytes(std::span(values)).data(), step_of(-100, 3), lanes);
}

TEST(Quantised, ASumBeyondTheRangeOfTheTypeIsInfinite) {
  const std::int32_t sum = 0x7fffffff;
  std::vector<std::byte> out(4);
  for (const DataType type : kScaledTypes) {
    const Exponent code = exponent_of_one(type, infinity_of(type) - 1);
    dequantise(type, std::as_bytes(std::span(&sum, 1)), step_of(code, 2), out.data());
    EXPECT_EQ(bits_at(type, out, 0), infinity_of(type));
  }
}

}  // namespace
}  // namespace tutti::in_network
