#include "transports/shm/introduction.hpp"

#include <bit>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "transports/shm/byte_ring.hpp"

namespace tutti {
namespace {

constexpr std::uint8_t kVersion = 1;

}  // namespace

Blob encode(const Introduction& said) {
  Blob bytes;
  bytes.reserve(kIntroductionBytes);
  ByteWriter(bytes).put(kVersion).put(said.heap_bytes).put(said.ring_offset).put(said.ring_bytes);
  return bytes;
}

Result<Introduction> decode_introduction(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  const auto version = in.get<std::uint8_t>();
  Introduction said;
  said.heap_bytes = in.get<std::uint64_t>();
  said.ring_offset = in.get<std::uint64_t>();
  said.ring_bytes = in.get<std::uint64_t>();
  const std::uint64_t ring = sizeof(RingHeader) + said.ring_bytes;
  if (!in.complete() || version != kVersion || !std::has_single_bit(said.ring_bytes) ||
      said.ring_bytes > kLargestRing || said.ring_offset % alignof(RingHeader) != 0 ||
      said.ring_offset > said.heap_bytes || ring > said.heap_bytes - said.ring_offset)
    return make_error(
        Code::kPeerFailed,
        "a peer announced a ring of {} bytes at {} in a heap of {} bytes (version {})",
        said.ring_bytes, said.ring_offset, said.heap_bytes, version);
  return said;
}

}  // namespace tutti
