// Packets: lines of 16 bytes that carry their own flag, for small data.
//
//   {u32 data, u32 flag, u32 data, u32 flag}
//
// The reader polls the data itself: a half is new if its flag is that of the current call. So a
// value travels in one store and needs no separate word that announces it. Each half is written at
// once, so only 8 bytes must be atomic; a GPU writes the line with one store.
//
// Flags are call numbers modulo 2^32 - 1, mapped so that they are never 0. So zeroed memory holds
// no packet. A line that no later call has written would look new again 2 * (2^32 - 1) calls later.
// Blocks clear their packets before that (is_last_lap()).
#pragma once

#include <cstdint>

#include "src/base/device_macros.hpp"
#include "src/device/atomics.hpp"

namespace tutti::device {

/// Each half holds 4 bytes of data, then the flag.
struct alignas(16) Packet {
  std::uint64_t halves[2];
};

/// Bytes of data in a packet.
inline constexpr std::uint64_t kPacketData = 8;

inline constexpr std::uint64_t kFlags = 0xffffffffu;

TUTTI_DEVICE constexpr std::uint32_t flag_of(std::uint64_t call) {
  return static_cast<std::uint32_t>(1 + call % kFlags);
}

/// Whether flags repeat after this call or the next one. Of two consecutive calls, one uses the
/// even packets and one the odd packets.
TUTTI_DEVICE constexpr bool is_last_lap(std::uint64_t call) { return call % kFlags >= kFlags - 2; }

TUTTI_DEVICE inline void store_packet(Packet* to, std::uint64_t data, std::uint32_t flag) {
  const std::uint64_t high = std::uint64_t{flag} << 32;
  const std::uint64_t first = (data & 0xffffffffu) | high;
  const std::uint64_t second = data >> 32 | high;
#if defined(__CUDA_ARCH__)
  asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(first), "l"(second)
               : "memory");
#else
  store_release(&to->halves[0], first);
  store_release(&to->halves[1], second);
#endif
}

/// Whether the packet with this flag has arrived; if so, fills `data`.
TUTTI_DEVICE inline bool load_packet(Packet* from, std::uint32_t flag, std::uint64_t& data) {
  std::uint64_t first = 0, second = 0;
#if defined(__CUDA_ARCH__)
  asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(first), "=l"(second)
               : "l"(from)
               : "memory");
#else
  first = load_acquire(&from->halves[0]);
  second = load_acquire(&from->halves[1]);
#endif
  data = (first & 0xffffffffu) | second << 32;
  return first >> 32 == flag && second >> 32 == flag;
}

}  // namespace tutti::device
