#include "src/codec/nvfp4.hpp"

#include "src/codec/formats.hpp"

namespace tutti::codec {

std::unique_ptr<const Format> nvfp4_format(Loops loops) {
  FormatTraits traits;
  traits.name = "nvfp4";
  traits.block = kNvfp4Block;
  traits.value_bits = 4;
  traits.bits = 4 + 8.0 / kGroup + 32.0 / kNvfp4Block;
  // Half of the step from 4 to 6, with a scale that rounding up made larger by an eighth, or by the
  // smallest e4m3.
  traits.error = 1.125 / kMostElement + 0x1p-9 / (kMostElement * kMostScale);
  traits.least = 0x1p-126;
  traits.specials =
      "4,096 values with NaN or infinity among them become NaN; denormal values become 0";
  return block_format(std::move(traits), Nvfp4Block(), loops);
}

}  // namespace tutti::codec
