// The scale of a block: one number, kept as float16, float32 or the exponent of a power of two. It
// is rounded so that the block's largest value stays within the range of codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "src/base/device_macros.hpp"
#include "src/base/float_formats.hpp"
#include "src/codec/elements.hpp"

namespace tutti::codec {

/// The smallest number of a format that is not below `value`, which is positive; at most `largest`.
template <class Narrow>
constexpr std::uint32_t round_up(float value, std::uint32_t largest) {
  const float most = widen_finite<Narrow>(largest);
  const std::uint32_t nearest = narrow_finite<Narrow, false>(value < most ? value : most, 0);
  return nearest < largest && widen_finite<Narrow>(nearest) < value ? nearest + 1 : nearest;
}

struct Float16Scale {
  static constexpr std::size_t kBytes = 2;
  static constexpr const char* kName = "fp16";
  static constexpr double kLargest = 65504;
  static constexpr double kRelative = 0x1p-10;  ///< by which rounding up makes it larger at most
  static constexpr double kLeast = 0x1p-24;

  /// Writes the scale of a block with codes up to `most` and magnitudes up to `largest`. Returns
  /// the number that load() gives.
  TUTTI_DEVICE static float store(float largest, float most, std::byte* out) {
    const float wanted = largest / most;
    std::uint16_t code = Float16::kNan;
    if (magnitude_of(wanted) < kInfinityBits)
      code = static_cast<std::uint16_t>(round_up<Float16>(wanted, Float16::kOverflow - 1));
    std::memcpy(out, &code, sizeof code);
    return load(out);
  }
  TUTTI_DEVICE static float load(const std::byte* in) {
    std::uint16_t code;
    std::memcpy(&code, in, sizeof code);
    return widen<Float16>(code);
  }
  /// A number that is not above `value`, as near as the format has one.
  TUTTI_DEVICE static float store_below(float value, std::byte* out) {
    const float bounded = clamp(value, -65504.0F, 65504.0F);
    auto code = static_cast<std::uint16_t>(narrow<Float16>(bounded));
    if (widen<Float16>(code) > bounded)
      code = static_cast<std::uint16_t>((code & 0x8000u) != 0 ? code + 1
                                        : code == 0           ? 0x8001u
                                                              : code - 1u);
    if (code == 0xfc00u) code = 0xfbffu;
    if (!(value == value)) code = Float16::kNan;
    std::memcpy(out, &code, sizeof code);
    return load(out);
  }
};

struct Float32Scale {
  static constexpr std::size_t kBytes = 4;
  static constexpr const char* kName = "fp32";
  static constexpr double kLargest = 3.4028234663852886e38;
  static constexpr double kRelative = 0x1p-22;
  static constexpr double kLeast = 0x1p-126;

  TUTTI_DEVICE static float store(float largest, float most, std::byte* out) {
    float scale = largest / most;
    if (scale * most < largest) scale = float_of(bits_of(scale) + 1);
    // The reciprocal of a denormal number would be infinite.
    if (scale < kLeastNormal && largest > 0) scale = kLeastNormal;
    if (magnitude_of(scale) >= kInfinityBits) scale = float_of(kNanBits);
    std::memcpy(out, &scale, sizeof scale);
    return scale;
  }
  TUTTI_DEVICE static float load(const std::byte* in) {
    float scale;
    std::memcpy(&scale, in, sizeof scale);
    return scale;
  }
  TUTTI_DEVICE static float store_below(float value, std::byte* out) {
    std::memcpy(out, &value, sizeof value);
    return value;
  }
};

/// The least power of two, as a byte: the exponent bits of a float32. 255: not a number.
struct PowerOfTwoScale {
  static constexpr std::size_t kBytes = 1;
  static constexpr double kLargest = 3.4028234663852886e38;
  static constexpr double kRelative = 1;
  static constexpr double kLeast = 0x1p-126;

  TUTTI_DEVICE static float store(float largest, float most, std::byte* out) {
    const float wanted = largest / most;
    std::uint32_t code = magnitude_of(wanted) >> 23;
    if (code < 1) code = 1;  // the reciprocal of a denormal number would be infinite
    if (code < 255 && float_of(code << 23) * most < largest) ++code;
    *out = static_cast<std::byte>(code);
    return load(out);
  }
  TUTTI_DEVICE static float load(const std::byte* in) {
    const auto code = static_cast<std::uint32_t>(*in);
    return code == 255 ? float_of(kNanBits) : float_of(code << 23);
  }
};

/// What values are multiplied by; 0 for a block of zeros and for one that holds NaN or infinity.
constexpr float reciprocal(float scale) {
  const bool usable = scale > 0 && magnitude_of(scale) < kInfinityBits;
  return usable ? 1.0F / scale : 0.0F;
}

}  // namespace tutti::codec
