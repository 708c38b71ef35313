// Any bytes decode to an error or to a card that encodes to the same meaning.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "src/comm/card.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto card = tutti::decode_card(std::as_bytes(std::span(data, size)), 0);
  if (!card) return 0;
  const tutti::Blob bytes = tutti::encode(*card);
  const auto again = tutti::decode_card(bytes, 0);
  if (!again || tutti::encode(*again) != bytes) std::abort();
  return 0;
}
