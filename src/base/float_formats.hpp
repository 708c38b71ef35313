// The narrow floating-point formats, bit for bit: float16, bfloat16, float8e4m3 and float8e5m2.
//
// Widening to float32 is exact. Narrowing rounds once, to nearest even, denormals included:
//   float16     IEEE binary16: values beyond 65504 round to infinity.
//   bfloat16    the upper half of a float32, rounded.
//   float8e5m2  OCP E5M2, IEEE-like: values beyond 57344 round to infinity, so a gradient scaler
//               still sees overflows.
//   float8e4m3  OCP E4M3 (the "fn" variant): no infinity; NaN is 0x7f or 0xff. Values that are too
//               large, infinity included, become the largest finite value, +-448. GPUs convert this
//               way (cvt.rn.satfinite), and so does NCCL's fp8 arithmetic.
// A NaN becomes a quiet NaN of the same sign. All this assumes the default rounding mode.
#pragma once

#include <bit>
#include <cstdint>

namespace tutti {

/// A format of at most 16 bits with a sign, an exponent and a mantissa.
template <int ExponentBits, int MantissaBits, bool HasInfinity, class BitsType>
struct FloatFormat {
  using Bits = BitsType;
  static constexpr int kExponentBits = ExponentBits;
  static constexpr int kMantissaBits = MantissaBits;
  static constexpr int kBias = (1 << (ExponentBits - 1)) - 1;
  static constexpr bool kHasInfinity = HasInfinity;

  static constexpr std::uint32_t kSign = 1u << (ExponentBits + MantissaBits);
  /// The bits of infinity; in a format without infinity, of NaN.
  static constexpr std::uint32_t kSpecial =
      HasInfinity ? ((1u << ExponentBits) - 1) << MantissaBits : kSign - 1;
  static constexpr std::uint32_t kNan =
      HasInfinity ? kSpecial | (1u << (MantissaBits - 1)) : kSpecial;
  /// The result for a magnitude that is too large.
  static constexpr std::uint32_t kOverflow = HasInfinity ? kSpecial : kSpecial - 1;

  /// Bits by which this format's mantissa is shifted to become float32's.
  static constexpr int kShift = 23 - MantissaBits;
  /// Added to float32's bits, it converts this format's exponent bias to float32's.
  static constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - kBias) << 23;
  /// The smallest normal number, as float32 bits.
  static constexpr std::uint32_t kMinNormal = kRebias + (1u << 23);
  /// A float32 power of two whose last place equals this format's smallest denormal. Adding it
  /// makes the processor round to that place.
  static constexpr std::uint32_t kDenormalMagic =
      static_cast<std::uint32_t>(127 - kBias + 1 + kShift) << 23;
};

using Float16 = FloatFormat<5, 10, true, std::uint16_t>;
using Bfloat16 = FloatFormat<8, 7, true, std::uint16_t>;
using Float8e4m3 = FloatFormat<4, 3, false, std::uint8_t>;
using Float8e5m2 = FloatFormat<5, 2, true, std::uint8_t>;

/// The value of `bits`, exactly.
template <class Format>
constexpr float widen(typename Format::Bits bits) {
  const std::uint32_t sign = (bits & Format::kSign)
                             << (31 - Format::kExponentBits - Format::kMantissaBits);
  const std::uint32_t magnitude = bits & (Format::kSign - 1);
  const bool special =
      Format::kHasInfinity ? magnitude >= Format::kSpecial : magnitude == Format::kSpecial;
  std::uint32_t wide = (magnitude << Format::kShift) + Format::kRebias;
  if (special) {
    wide = 0x7f800000u | (Format::kHasInfinity ? (magnitude << Format::kShift) : 0x00400000u);
  } else if (wide < Format::kMinNormal) {
    // A denormal: read as if it had an implicit leading one, then take that one away.
    wide = std::bit_cast<std::uint32_t>(std::bit_cast<float>(wide + (1u << 23)) -
                                        std::bit_cast<float>(Format::kMinNormal));
  }
  return std::bit_cast<float>(sign | wide);
}

template <>
constexpr float widen<Bfloat16>(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// `value` rounded to the nearest number of the format, ties to even.
template <class Format>
constexpr typename Format::Bits narrow(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t sign =
      (bits ^ magnitude) >> (31 - Format::kExponentBits - Format::kMantissaBits);
  std::uint32_t code = Format::kNan;
  if (magnitude < Format::kMinNormal) {
    code = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) +
                                        std::bit_cast<float>(Format::kDenormalMagic)) -
           Format::kDenormalMagic;
  } else if (magnitude <= 0x7f800000u) {
    const std::uint32_t odd = (magnitude >> Format::kShift) & 1;
    const std::uint32_t half = (1u << (Format::kShift - 1)) - 1;
    code = (magnitude - Format::kRebias + half + odd) >> Format::kShift;
    if (code > Format::kOverflow) code = Format::kOverflow;
  }
  return static_cast<typename Format::Bits>(sign | code);
}

template <>
constexpr std::uint16_t narrow<Bfloat16>(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | Bfloat16::kNan);
  }
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

}  // namespace tutti
