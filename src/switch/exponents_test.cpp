#include "src/switch/exponents.hpp"

#include <array>
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

Exponent exponent_of_one(DataType type, std::uint32_t bits, const Fixed& fixed = {}) {
  std::vector<std::byte> values(3 * size_of(type));
  set_bits(type, values, 1, bits);
  return exponent_of(type, values.data(), 3, fixed);
}

/// What quantise() makes of `count` values.
std::vector<std::int64_t> integers_of(DataType type, const std::vector<std::byte>& values,
                                      std::size_t count, const Scale& scale) {
  const std::size_t width = scale.bits / 8;
  std::vector<std::byte> bytes(count * width);
  quantise(type, values.data(), count, scale, bytes.data());
  std::vector<std::int64_t> integers(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * width, width);
    const unsigned above = 64 - scale.bits;
    integers[i] = static_cast<std::int64_t>(bits << above) >> above;
  }
  return integers;
}
std::vector<std::byte> bytes_of(const std::vector<std::int64_t>& sums, unsigned bits) {
  std::vector<std::byte> bytes(sums.size() * bits / 8);
  for (std::size_t i = 0; i < sums.size(); ++i)
    std::memcpy(bytes.data() + i * bits / 8, &sums[i], bits / 8);
  return bytes;
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
  EXPECT_EQ(exponent_of_one(DataType::kFloat32, 0x7f7fffff), kGreatestExponent - 1);
  const Fixed many{.members = kMostMembers};
  EXPECT_EQ(exponent_of_one(DataType::kFloat32, 0x7f7fffff, many), kGreatestExponent);
  EXPECT_EQ(exponent_of_one(DataType::kFloat32, 0x7f800000), kNotFinite);
  EXPECT_EQ(exponent_of_one(DataType::kFloat32, 0xff800001), kNotFinite);
  EXPECT_EQ(exponent_of_one(DataType::kFloat16, 1), -23);
  EXPECT_EQ(exponent_of_one(DataType::kFloat16, 0x7bff), 16);
  EXPECT_EQ(exponent_of_one(DataType::kBfloat16, 1), -132);
  EXPECT_EQ(exponent_of_one(DataType::kBfloat16, 0x7f7f), 128);
  EXPECT_LT(kAllZero, kLeastExponent);
  EXPECT_GT(kNotFinite, kGreatestExponent);
}

TEST(Exponents, LeaveRoomForWhatIsRoundedUp) {
  const auto code = [](float value, const Fixed& fixed) {
    return exponent_of_one(DataType::kFloat32, std::bit_cast<std::uint32_t>(value), fixed);
  };
  EXPECT_EQ(code(127.4F / 128, {.bits = 8}), 0);
  EXPECT_EQ(code(127.5F / 128, {.bits = 8}), 1) << "would become 128";
  EXPECT_EQ(code(15.4F / 16, {.members = 7, .bits = 8}), 0);
  EXPECT_EQ(code(15.5F / 16, {.members = 7, .bits = 8}), 1);
  EXPECT_EQ(code(32767.4F / 32768, {.bits = 16}), 0);
  EXPECT_EQ(code(32767.5F / 32768, {.bits = 16}), 1);
}

TEST(Exponents, AreThoseOfTheProductsWithAFactor) {
  const auto code = [](float value, float factor) {
    return exponent_of(DataType::kFloat32, std::as_bytes(std::span(&value, 1)).data(), 1, {},
                       factor);
  };
  EXPECT_EQ(code(1.5F, 1), 1);
  EXPECT_EQ(code(1.5F, -0.25F), -1);
  EXPECT_EQ(code(1.5F, 0), kAllZero);
  EXPECT_EQ(code(1.5F, NAN), kNotFinite);
  EXPECT_EQ(code(INFINITY, 0), kNotFinite);
  EXPECT_EQ(code(3e38F, 4), kNotFinite) << "beyond float32";
  EXPECT_EQ(code(1e-38F, 1e-20F), kLeastExponent);
}

TEST(Exponents, NeedBitsForEachMember) {
  EXPECT_TRUE(has_precision({.members = 16, .bits = 8}));
  EXPECT_FALSE(has_precision({.members = 17, .bits = 8}));
  EXPECT_TRUE(has_precision({.members = kMostMembers, .bits = 16}));
  EXPECT_TRUE(has_precision({.members = kMostMembers, .bits = 32}));
  for (const unsigned bits : {0U, 4U, 24U, 64U}) EXPECT_FALSE(has_precision({.bits = bits}));
}

constexpr unsigned kAllBits[] = {32, 16, 8};

TEST(Quantised, TheGreatestValuesOfAllWorkersDoNotOverflow) {
  for (unsigned members = 1; members <= kMostMembers; ++members)
    for (const DataType type : kScaledTypes)
      for (const unsigned bits : kAllBits)
        for (std::uint32_t below = 1; below < 2000; below += members < 20 ? 1 : 333) {
          const Fixed fixed{.members = members, .bits = bits};
          if (!has_precision(fixed)) continue;
          std::vector<std::byte> values(2 * size_of(type));
          set_bits(type, values, 0, infinity_of(type) - below);
          set_bits(type, values, 1, (infinity_of(type) - below) | sign_of(type));
          const Exponent code = exponent_of(type, values.data(), 2, fixed);
          const std::int64_t most = (std::int64_t{1} << (bits - 1)) - 1;
          for (const std::int64_t each : integers_of(type, values, 2, scale_of(code, fixed)))
            ASSERT_LE(std::abs(each) * members, most) << members << " workers, " << bits;
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
    const Fixed fixed{.members = members, .bits = kAllBits[random() % 3]};
    if (!has_precision(fixed)) continue;
    std::vector<std::int64_t> sums(kCount);
    std::vector<double> exact(kCount);
    std::vector<std::vector<std::byte>> inputs;
    Exponent greatest = kAllZero;
    for (unsigned worker = 0; worker < members; ++worker) {
      inputs.push_back(random_values(type, kCount, random));
      greatest = std::max(greatest, exponent_of(type, inputs.back().data(), kCount, fixed));
    }
    if (!has_steps(greatest)) continue;
    const Scale scale = scale_of(greatest, fixed);
    for (const auto& input : inputs) {
      const auto integers = integers_of(type, input, kCount, scale);
      for (std::size_t i = 0; i < kCount; ++i) {
        const double value = value_at(type, input, i);
        ASSERT_LE(std::fabs(static_cast<double>(integers[i]) * scale.step - value), scale.step / 2);
        sums[i] += integers[i];
        exact[i] += value;  // off by 2^-53 of the greatest sum at most, a step is 2^-31
      }
    }
    std::vector<std::byte> out(kCount * size_of(type));
    dequantise(type, bytes_of(sums, fixed.bits), scale, out.data());
    const double bound = members * scale.step / 2 * (1 + 0x1p-10);
    for (std::size_t i = 0; i < kCount; ++i) {
      const double sum = static_cast<double>(sums[i]) * scale.step;
      ASSERT_LE(std::fabs(sum - exact[i]), bound) << members << " workers";
      ASSERT_TRUE(is_nearest(type, sum, bits_at(type, out, i)))
          << name_of(type) << " " << sums[i] << " steps of " << scale.step << " became "
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
      const Scale scale = scale_of(code, {});
      dequantise(type, bytes_of(integers_of(type, value, 1, scale), 32), scale, value.data());
      ASSERT_EQ(bits_at(type, value, 0), bits) << name_of(type);
    }
}

TEST(Quantised, SmallIntegersAddUpExactly) {
  std::mt19937_64 random(2);
  for (const unsigned bits : kAllBits)
    for (const unsigned members : {1U, 2U, 3U, 8U, 31U}) {
      const Fixed fixed{.members = members, .bits = bits};
      if (!has_precision(fixed)) continue;
      const int most = bits == 8 ? 128 / std::bit_ceil(members) - 1 : 1000;
      const Scale scale = scale_of(bits == 8 ? std::bit_width(unsigned(most)) : 11, fixed);
      if (scale.step > 1) continue;
      std::vector<std::int64_t> sums(100);
      std::vector<float> expected(100);
      for (unsigned worker = 0; worker < members; ++worker) {
        std::vector<std::byte> values(400);
        for (std::size_t i = 0; i < 100; ++i) {
          const auto span = static_cast<std::uint64_t>(2 * most + 1);
          const auto value = static_cast<float>(static_cast<int>(random() % span) - most);
          set_bits(DataType::kFloat32, values, i, std::bit_cast<std::uint32_t>(value));
          expected[i] += value;
        }
        const auto integers = integers_of(DataType::kFloat32, values, 100, scale);
        for (std::size_t i = 0; i < 100; ++i) sums[i] += integers[i];
      }
      std::vector<float> out(100);
      dequantise(DataType::kFloat32, bytes_of(sums, bits), scale,
                 std::as_writable_bytes(std::span(out)).data());
      EXPECT_EQ(out, expected) << bits << " bits, " << members << " workers";
    }
}

TEST(Quantised, AFactorIsAppliedBeforeTheRounding) {
  const std::vector<float> values{3, -5, 0.75F};
  const Scale scale = scale_of(3, {.bits = 16});
  std::array<std::int16_t, 3> integers{};
  quantise(DataType::kFloat32, std::as_bytes(std::span(values)).data(), 3, scale,
           std::as_writable_bytes(std::span(integers)).data(), 1.0F / 3);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(integers[i] * scale.step, values[i] * double{1.0F / 3}, scale.step / 2);
}

TEST(Quantised, ValuesThatSomebodyChangedMakeNoUndefinedBehaviour) {
  const float values[] = {INFINITY, -INFINITY, NAN, 3e38F};
  for (const unsigned bits : kAllBits) {
    std::byte integers[16];
    quantise(DataType::kFloat32, std::as_bytes(std::span(values)).data(), 4,
             scale_of(-100, {.members = 3, .bits = bits}), integers);
  }
}

TEST(Quantised, ASumBeyondTheRangeOfTheTypeIsInfinite) {
  for (const unsigned bits : kAllBits)
    for (const DataType type : kScaledTypes) {
      const Fixed fixed{.members = 2, .bits = bits};
      const std::int64_t sum = (std::int64_t{1} << (bits - 1)) - 1;
      std::vector<std::byte> out(size_of(type));
      const Exponent code = exponent_of_one(type, infinity_of(type) - 1, fixed);
      dequantise(type, bytes_of({sum}, bits), scale_of(code, fixed), out.data());
      EXPECT_EQ(bits_at(type, out, 0), infinity_of(type));
    }
}

}  // namespace
}  // namespace tutti::in_network
