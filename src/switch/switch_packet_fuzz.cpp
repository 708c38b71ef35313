// Any bytes are refused, or are a packet that is built to the same bytes again.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "src/switch/packet.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti::in_network;
  const auto bytes = std::as_bytes(std::span(data, size));
  Packet packet;
  if (parse(bytes, packet) != Flaw::kNone) return 0;
  PacketBytes room;
  const auto again = build(packet, room);
  const auto covered = bytes.first(bytes.size() - kMacBytes);
  if (again.size() != bytes.size() || !std::ranges::equal(again.first(covered.size()), covered))
    std::abort();
  return 0;
}
