// Any bytes decode to an error or to facts of a rank that encode to the same meaning.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "src/comm/peer_info.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto value = tutti::decode_peer_info(std::as_bytes(std::span(data, size)), 0);
  if (!value) return 0;
  const tutti::Blob bytes = tutti::encode(*value);
  const auto again = tutti::decode_peer_info(bytes, 0);
  if (!again || tutti::encode(*again) != bytes) std::abort();
  return 0;
}
