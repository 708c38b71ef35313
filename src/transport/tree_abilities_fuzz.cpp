// Any bytes decode to an error, or to abilities that encode to the same bytes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "src/transport/tree_abilities.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto decoded = tutti::decode_tree_abilities(bytes);
  if (decoded && !std::ranges::equal(encode(*decoded), bytes)) std::abort();
  return 0;
}
