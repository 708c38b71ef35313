#include "src/codec/sign.hpp"

#include "src/codec/formats.hpp"

namespace tutti::codec {

std::unique_ptr<const Format> sign_format(Loops loops) {
  FormatTraits traits;
  traits.name = "sign";
  traits.block = kSignBlock;
  traits.value_bits = 1;
  traits.bits = 1 + 32.0 / kSignBlock;
  traits.error = 1;
  traits.largest = 1.7e38;
  traits.specials =
      "4,096 values with NaN or infinity among them become NaN; zeros become plus or minus the "
      "mean";
  return block_format(std::move(traits), SignBlock(), loops);
}

}  // namespace tutti::codec
