#include "src/codec/microscaling.hpp"

#include "src/codec/formats.hpp"

namespace tutti::codec {
namespace {

template <class Element>
std::unique_ptr<const Format> make_micro(const char* name, double error, Loops loops) {
  FormatTraits traits;
  traits.name = name;
  traits.block = kMicroBlock;
  traits.value_bits = Element::kBits;
  traits.bits = Element::kBits + 8.0 / kMicroBlock;
  traits.error = error;
  traits.least = 0x1p-126;
  traits.specials = "a block with NaN or infinity becomes NaN; denormal values become 0";
  return block_format(std::move(traits), MicroBlock<Element>(), loops);
}

}  // namespace

std::unique_ptr<const Format> microscaling_format(Micro micro, Loops loops) {
  switch (micro) {
    case Micro::kE4m3:
      return make_micro<FloatElement<Float8e4m3, 8>>("mxfp8", 0.125, loops);
    case Micro::kE5m2:
      return make_micro<FloatElement<Float8e5m2, 15>>("mxfp8e5m2", 0.125, loops);
    case Micro::kE2m1:
      return make_micro<FloatElement<Float4e2m1, 2>>("mxfp4", 0.25, loops);
    case Micro::kInt8:
      return make_micro<IntegerElement>("mxint8", 0x1p-6, loops);
  }
  return nullptr;
}

}  // namespace tutti::codec
