// One value at a time: the arithmetic of all formats. Without branches, so compilers vectorise the
// loops around it, and without the host's library, so device code can use it too. No result depends
// on the processor: no operation here is contracted or reordered.
#pragma once

#include <bit>
#include <cstdint>

#include "src/base/float_formats.hpp"

namespace tutti::codec {

inline constexpr std::uint32_t kInfinityBits = 0x7f800000u;
inline constexpr std::uint32_t kNanBits = 0x7fc00000u;
inline constexpr float kLeastNormal = 0x1p-126F;

constexpr std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
constexpr float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }
/// Magnitudes order like these bits. NaN and infinity are the largest, from kInfinityBits on.
constexpr std::uint32_t magnitude_of(float value) { return bits_of(value) & 0x7fffffffu; }

constexpr float clamp(float value, float least, float most) {
  const float low = value < least ? least : value;
  return low > most ? most : low;
}

/// 2^exponent, for -127 to 127.
constexpr float power_of_two(int exponent) {
  return float_of(exponent > -127 ? static_cast<std::uint32_t>(exponent + 127) << 23 : 0x400000u);
}

/// 32 bits that look random, of an element. The constants are from Wellons, "Prospecting for hash
/// functions" (2018): a mixing function of low bias.
constexpr std::uint32_t random_bits(std::uint64_t key, std::uint32_t element) {
  std::uint32_t x = element ^ static_cast<std::uint32_t>(key);
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  x = (x ^ (x >> 16)) + static_cast<std::uint32_t>(key >> 32);
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

/// More than -1/2 and less than 1/2, both excluded, with so many bits: adding it before rounding to
/// nearest rounds up with the right probability, and leaves integers below 2^(23 - kBits) as they
/// are.
template <int kBits = 16>
constexpr float random_shift(std::uint32_t random) {
  constexpr float kSteps = 1 << kBits;
  const auto drawn = static_cast<float>(static_cast<std::int32_t>(random >> (32 - kBits)));
  return (drawn - (kSteps / 2 - 0.5F)) * (1 / kSteps);
}

/// The nearest integer, ties to even, of |value| < 2^22.
constexpr std::int32_t nearest_integer(float value) {
  constexpr float kMagic = 0x1.8p23F;  // its last place is 1
  return static_cast<std::int32_t>(bits_of(value + kMagic) - bits_of(kMagic));
}

/// `value` in a format with fewer bits. It must be finite and within the format's range. `random`:
/// 0 rounds to nearest even, other bits at random.
template <class Narrow, bool kRandom>
constexpr std::uint32_t narrow_finite(float value, std::uint32_t random) {
  constexpr std::uint32_t kBelow = (1u << Narrow::kShift) - 1;
  // Adding it rounds to the smallest denormal number. The half keeps small negative sums, which
  // random rounding makes, in the same binade.
  constexpr float kMagic = 1.5F * std::bit_cast<float>(Narrow::kDenormalMagic);
  constexpr float kLastPlace = std::bit_cast<float>(Narrow::kDenormalMagic) * 0x1p-23F;
  const std::uint32_t magnitude = magnitude_of(value);
  const std::uint32_t sign =
      (bits_of(value) ^ magnitude) >> (31 - Narrow::kExponentBits - Narrow::kMantissaBits);
  const std::uint32_t up =
      kRandom ? random & kBelow : (kBelow >> 1) + ((magnitude >> Narrow::kShift) & 1);
  const std::uint32_t normal = (magnitude - Narrow::kRebias + up) >> Narrow::kShift;
  const float shift = kRandom ? random_shift(random) * kLastPlace : 0.0F;
  const std::uint32_t denormal = bits_of((float_of(magnitude) + shift) + kMagic) - bits_of(kMagic);
  return sign | (magnitude < Narrow::kMinNormal ? denormal : normal);
}

/// The value of any bits, which are taken for finite ones.
template <class Narrow>
constexpr float widen_finite(std::uint32_t code) {
  const std::uint32_t magnitude = code & (Narrow::kSign - 1);
  const std::uint32_t sign = (code & Narrow::kSign)
                             << (31 - Narrow::kExponentBits - Narrow::kMantissaBits);
  const std::uint32_t normal = (magnitude << Narrow::kShift) + Narrow::kRebias;
  // As if it had an implicit leading one, which is then taken away.
  const std::uint32_t denormal =
      bits_of(float_of(normal + (1u << 23)) - float_of(Narrow::kMinNormal));
  return float_of(sign | (normal < Narrow::kMinNormal ? denormal : normal));
}

/// As tutti::narrow, but without branches, and for any value.
template <class Narrow, bool kRandom>
constexpr std::uint32_t narrow_any(float value, std::uint32_t random) {
  const std::uint32_t magnitude = magnitude_of(value);
  const std::uint32_t sign =
      (bits_of(value) ^ magnitude) >> (31 - Narrow::kExponentBits - Narrow::kMantissaBits);
  const std::uint32_t code =
      narrow_finite<Narrow, kRandom>(float_of(magnitude), magnitude < kInfinityBits ? random : 0);
  const std::uint32_t bounded = code > Narrow::kOverflow ? Narrow::kOverflow : code;
  return sign | (magnitude > kInfinityBits ? Narrow::kNan : bounded);
}

/// The same as tutti::widen, but without branches.
template <class Narrow>
constexpr float widen_any(std::uint32_t code) {
  const std::uint32_t magnitude = code & (Narrow::kSign - 1);
  const std::uint32_t sign = (code & Narrow::kSign)
                             << (31 - Narrow::kExponentBits - Narrow::kMantissaBits);
  const std::uint32_t special = kInfinityBits | magnitude << Narrow::kShift;
  const std::uint32_t finite = bits_of(widen_finite<Narrow>(magnitude));
  return float_of(sign | (magnitude >= Narrow::kSpecial ? special : finite));
}

/// Four bits with a sign, two of exponent and one of mantissa (OCP MX specification 1.0, 5.3.3):
/// 0, 0.5, 1, 1.5, 2, 3, 4, 6. No code is special.
using Float4e2m1 = FloatFormat<2, 1, false, std::uint8_t>;

}  // namespace tutti::codec
