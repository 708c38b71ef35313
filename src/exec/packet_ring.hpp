// Where a rank puts the inputs that it publishes and that are too long for an entry or a note.
//
// Packets follow each other around a ring that is larger than a processor's own cache. So a line is
// written again only long after it was read. By then it has left the caches of the writer and of
// its readers for the cache that they share, and the store need not take it away from anyone. On
// two CPUs of an EPYC, publishing 32 KiB and reading as much took 2.5 us in a ring of twice the L2
// cache, and 5.1 us in one of a quarter of it (docs/performance.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/exec/layout.hpp"

namespace tutti::exec {

/// The ring's size for at most two ranks to a CPU: twice the L2 cache, within bounds. Where many
/// ranks take turns on a CPU they share its cache, and a small ring stays in it.
std::size_t packet_ring_bytes(bool few_per_cpu);

/// Places in a ring of `bytes`, which is at least that of packet_ring_bytes(false): some packets
/// fit at a time, so the one in the way is not the last one. Value.
class PacketRing {
 public:
  explicit PacketRing(std::size_t bytes) : bytes_(bytes) {}

  /// The latest of the last kEntries calls that has its packet where the next one of `bytes` will
  /// lie; 0: none. Its readers must be done with it before take().
  [[nodiscard]] std::uint64_t in_the_way(std::size_t bytes) const;
  /// The place of the packet of `call`, from the ring's begin. `bytes`: 1 to kPacketBytes.
  std::size_t take(std::uint64_t call, std::size_t bytes);

 private:
  /// Positions count on from lap to lap.
  struct Packet {
    std::uint64_t call = 0;
    std::uint64_t begin = 0;
  };
  static constexpr std::size_t room_of(std::size_t bytes) {
    return (bytes + kLine - 1) / kLine * kLine;
  }
  [[nodiscard]] std::uint64_t next_begin(std::size_t bytes) const;
  [[nodiscard]] std::uint64_t overwritten_to(std::size_t bytes) const;

  std::size_t bytes_;
  std::uint64_t end_ = 0;                      ///< of the last packet
  std::array<Packet, kEntries> packets_ = {};  ///< the last ones, by number
  std::uint64_t first_ = 0, taken_ = 0;        ///< numbers of those that lie in the ring
};

}  // namespace tutti::exec
