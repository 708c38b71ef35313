#include "src/codec/integer.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "src/codec/formats.hpp"

namespace tutti::codec {
namespace {

template <int kBits, bool kOffset, class Scale>
FormatTraits traits_of(std::string name, std::uint32_t block) {
  using Block = IntegerBlock<kBits, kOffset, Scale>;
  constexpr double kFloatError = 0x1p-22;
  FormatTraits traits;
  traits.name = std::move(name);
  traits.block = block;
  traits.value_bits = kBits;
  traits.bits = 8.0 * static_cast<double>(Block().bytes(block)) / block;
  // Half a step. With an offset the range is up to twice the largest magnitude.
  const double range = kOffset ? 2 + Scale::kRelative : 1;
  traits.error = range * (1 + Scale::kRelative) / (2 * Block::kMost) + kFloatError;
  traits.least = kOffset ? 2 * Scale::kLeast : Scale::kLeast;
  traits.largest = std::min(Scale::kLargest * (kOffset ? 1 : Block::kMost), 1.7e38);
  traits.specials =
      "a block with NaN or infinity becomes NaN; zeros lose their sign; denormal values become 0";
  return traits;
}

template <int kBits, bool kOffset, class Scale>
std::unique_ptr<const Format> make(std::uint32_t block, Loops loops) {
  std::string name =
      fmt::format("int{}{}:block={}:scale={}", kBits, kOffset ? "a" : "", block, Scale::kName);
  return block_format(traits_of<kBits, kOffset, Scale>(std::move(name), block),
                      IntegerBlock<kBits, kOffset, Scale>(), loops);
}

template <int kBits, bool kOffset>
std::unique_ptr<const Format> make(std::uint32_t block, ScaleKind scale, Loops loops) {
  return scale == ScaleKind::kFloat16 ? make<kBits, kOffset, Float16Scale>(block, loops)
                                      : make<kBits, kOffset, Float32Scale>(block, loops);
}

template <int kBits>
std::unique_ptr<const Format> make_block_floating_point(Loops loops) {
  constexpr std::uint32_t kBlock = 512;
  FormatTraits traits =
      traits_of<kBits, false, PowerOfTwoScale>(fmt::format("bfp{}", kBits), kBlock);
  traits.network_bits = kBits;
  return block_format(std::move(traits), IntegerBlock<kBits, false, PowerOfTwoScale>(), loops);
}

}  // namespace

std::unique_ptr<const Format> block_floating_point_format(int bits, Loops loops) {
  return bits == 16 ? make_block_floating_point<16>(loops) : make_block_floating_point<8>(loops);
}

std::unique_ptr<const Format> integer_format(int bits, bool offset, std::uint32_t block,
                                             ScaleKind scale, Loops loops) {
  if (bits == 4)
    return offset ? make<4, true>(block, scale, loops) : make<4, false>(block, scale, loops);
  return offset ? make<8, true>(block, scale, loops) : make<8, false>(block, scale, loops);
}

}  // namespace tutti::codec
