#include "src/exec/packet_ring.hpp"

#include <algorithm>

#include <unistd.h>

namespace tutti::exec {

std::size_t packet_ring_bytes(bool few_per_cpu) {
  constexpr std::size_t kSmall = 8 * kPacketBytes, kLarge = std::size_t{8} << 20;
  if (!few_per_cpu) return kSmall;
  constexpr long kTypicalCache = 1 << 20;  // where the system does not tell
  long cache = 0;
#ifdef _SC_LEVEL2_CACHE_SIZE
  cache = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
  const auto bytes = static_cast<std::size_t>(cache > 0 ? cache : kTypicalCache);
  return std::clamp(2 * bytes / kPacketBytes * kPacketBytes, kSmall, kLarge);
}

/// A packet does not go over the ring's end.
std::uint64_t PacketRing::next_begin(std::size_t bytes) const {
  const std::uint64_t at = end_ % bytes_;
  return at + bytes <= bytes_ ? end_ : end_ + (bytes_ - at);
}

/// The next packet overwrites those that begin before this, and the packets before `first_` are
/// overwritten already.
std::uint64_t PacketRing::overwritten_to(std::size_t bytes) const {
  const std::uint64_t end = next_begin(bytes) + room_of(bytes);
  return end > bytes_ ? end - bytes_ : 0;
}

std::uint64_t PacketRing::in_the_way(std::size_t bytes) const {
  const std::uint64_t limit = overwritten_to(bytes);
  std::uint64_t call = 0;
  for (std::uint64_t packet = first_; packet < taken_; ++packet) {
    if (packets_[packet % kEntries].begin >= limit) break;
    call = packets_[packet % kEntries].call;
  }
  return call;
}

std::size_t PacketRing::take(std::uint64_t call, std::size_t bytes) {
  const std::uint64_t limit = overwritten_to(bytes), begin = next_begin(bytes);
  while (first_ < taken_ && packets_[first_ % kEntries].begin < limit) ++first_;
  packets_[taken_ % kEntries] = {call, begin};
  ++taken_;
  first_ = std::max(first_, taken_ - std::min<std::uint64_t>(taken_, kEntries));
  end_ = begin + room_of(bytes);
  return begin % bytes_;
}

}  // namespace tutti::exec
