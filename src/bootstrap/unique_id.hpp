// The 128-byte unique id: all that a rank needs to find its group and to prove that it belongs.
//
// It holds the secret key of the job: pass it as you would a password, print it nowhere.
//
//   byte  0 magic "TUTTIUID"      8 version u16      10 addresses u8 (1..3)    11 zero u8
//        12 zero u32             16 job id u64       24 key, 32 bytes
//        56 three addresses of 20 bytes: family u8 (4, 6; 0 unused), zero u8, port u16, 16 bytes
//       116 zero u32            120 checksum u64 of all before it
// All numbers are little-endian; an address is in network order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/wire/crypto.hpp"
#include "src/wire/net.hpp"
#include "tutti/error.hpp"

namespace tutti {

inline constexpr std::size_t kUniqueIdBytes = 128;
inline constexpr std::size_t kUniqueIdAddresses = 3;
using UniqueIdBytes = std::array<std::byte, kUniqueIdBytes>;

/// Value.
struct UniqueId {
  std::uint64_t job = 0;
  Key key{};
  std::vector<SocketAddress> addresses;  ///< of the hub, best first; no link-local ones
  friend bool operator==(const UniqueId&, const UniqueId&) = default;
};

/// `id` has 1 to 3 addresses.
UniqueIdBytes encode(const UniqueId& id);
/// kInvalidArgument with the precise reason when `bytes` is not what encode() of this version made:
/// zeros, garbage, another version, damaged, another length.
Result<UniqueId> decode_unique_id(std::span<const std::byte> bytes);

}  // namespace tutti
