#include "src/codec/half.hpp"

#include "src/codec/formats.hpp"

namespace tutti::codec {
namespace {

/// Blocks keep nothing here, so their length matters to loops alone.
constexpr std::uint32_t kLoopBlock = 32;

}  // namespace

std::unique_ptr<const Format> half_format(Half half, Loops loops) {
  FormatTraits traits;
  traits.block = kLoopBlock;
  traits.bits = traits.value_bits = 16;
  if (half == Half::kBfloat16) {
    traits.name = "bf16";
    traits.error = 0x1p-8;
    traits.least = 0x1p-134;
    traits.largest = 3.3895313892515355e38;
    traits.specials =
        "NaN, infinity and the sign of zero are kept; magnitudes from 3.3962e38 on become infinity";
    return block_format(std::move(traits), HalfBlock<Bfloat16>(), loops);
  }
  traits.name = "fp16";
  traits.error = 0x1p-11;
  traits.least = 0x1p-25;
  traits.largest = 65504;
  traits.specials =
      "NaN, infinity and the sign of zero are kept; magnitudes from 65520 on become infinity";
  return block_format(std::move(traits), HalfBlock<Float16>(), loops);
}

}  // namespace tutti::codec
