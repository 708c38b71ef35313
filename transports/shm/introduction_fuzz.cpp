// Any bytes decode to an error or to an introduction that encodes to them again and whose ring lies
// inside the heap.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "transports/shm/byte_ring.hpp"
#include "transports/shm/introduction.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto said = tutti::decode_introduction(bytes);
  if (!said) return 0;
  if (!std::ranges::equal(tutti::encode(*said), bytes)) std::abort();
  if (said->ring_offset % alignof(tutti::RingHeader) != 0) std::abort();
  // 128 bits, in which these cannot wrap.
  const auto end = static_cast<unsigned __int128>(said->ring_offset) + sizeof(tutti::RingHeader) +
                   said->ring_bytes;
  if (end > said->heap_bytes) std::abort();
  return 0;
}
