// Any bytes decode to an error or to a key that encodes to the same bytes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "transports/verbs/puts.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto key = tutti::verbs::decode_target_key(bytes);
  if (!key) return 0;
  if (!std::ranges::equal(tutti::verbs::encode(*key), bytes)) std::abort();
  if (key->address + key->bytes < key->address) std::abort();
  return 0;
}
