#include "src/codec/top_k.hpp"

#include <fmt/core.h>

#include "src/codec/formats.hpp"

namespace tutti::codec {

std::unique_ptr<const Format> top_k_format(std::uint32_t kept, std::uint32_t block, Loops loops) {
  static_assert(kMostBlock == std::size_t{1} << 16, "places have 16 bits");
  FormatTraits traits;
  traits.name = fmt::format("topk:k={}:block={}", kept, block);
  traits.block = block;
  const TopKBlock top{kept, block};
  traits.value_bits = 8.0 * sizeof(float) * kept / block;
  traits.bits = 8.0 * static_cast<double>(top.bytes(block)) / block;
  traits.error = kept == block ? 0 : 1;
  traits.specials =
      "NaN and infinity are the largest, so they are kept first; zeros that are not kept lose "
      "their sign";
  return block_format(std::move(traits), top, loops);
}

}  // namespace tutti::codec
