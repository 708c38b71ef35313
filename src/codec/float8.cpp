#include "src/codec/float8.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "src/codec/formats.hpp"

namespace tutti::codec {
namespace {

template <class Narrow, class Scale>
std::unique_ptr<const Format> make_float8(const char* name, std::uint32_t block, Loops loops) {
  using Block = Float8Block<Narrow, Scale>;
  constexpr double kFloatError = 0x1p-22;
  FormatTraits traits;
  traits.name = fmt::format("{}:block={}:scale={}", name, block, Scale::kName);
  traits.block = block;
  traits.value_bits = 8;
  traits.bits = 8.0 * static_cast<double>(Block().bytes(block)) / block;
  // Half of the last place of a number near the largest one.
  traits.error = (1 + Scale::kRelative) / (1 << (Narrow::kMantissaBits + 1)) + kFloatError;
  traits.least = Scale::kLeast;
  traits.largest = std::min(Scale::kLargest * largest_value<Narrow>(), 3.4e38);
  traits.specials =
      "a block with NaN or infinity becomes NaN; zeros keep their sign; denormal values become 0";
  return block_format(std::move(traits), Block(), loops);
}

template <class Narrow>
std::unique_ptr<const Format> make_float8(const char* name, std::uint32_t block, ScaleKind scale,
                                          Loops loops) {
  return scale == ScaleKind::kFloat16 ? make_float8<Narrow, Float16Scale>(name, block, loops)
                                      : make_float8<Narrow, Float32Scale>(name, block, loops);
}

}  // namespace

std::unique_ptr<const Format> float8_format(Eight eight, std::uint32_t block, ScaleKind scale,
                                            Loops loops) {
  return eight == Eight::kE4m3 ? make_float8<Float8e4m3>("e4m3", block, scale, loops)
                               : make_float8<Float8e5m2>("e5m2", block, scale, loops);
}

}  // namespace tutti::codec
