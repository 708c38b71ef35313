// What two processes tell each other about their paths, on the authenticated socket that stays open
// beside the queue pairs. It is few: offers at the start, and whatever opens and closes a path.
//
// A message is a header (type u8, zero u8, bytes u16) and a body, little-endian. All of it comes
// from a peer and is validated here; nothing else reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "src/base/blob.hpp"
#include "transports/verbs/rails.hpp"
#include "tutti/error.hpp"

namespace tutti::verbs {

inline constexpr std::uint16_t kControlVersion = 2;
inline constexpr std::size_t kMostRails = 16;
inline constexpr std::size_t kMostPaths = 64;
inline constexpr std::size_t kMostControlBytes = 4096;
inline constexpr std::uint64_t kLeastRing = 4 << 10;
inline constexpr std::uint64_t kMostRing = 1 << 20;

/// The first message of each side: where it can be reached, and the ring that the peer writes.
struct Offer {
  struct OfferedRail {
    Rail rail;
    std::uint32_t ring_key = 0;  ///< of the ring, on this rail's device
    friend bool operator==(const OfferedRail&, const OfferedRail&) = default;
  };
  std::vector<OfferedRail> rails{};
  std::uint64_t ring_address = 0;
  std::uint64_t ring_bytes = 0;         ///< a power of two
  std::uint8_t pairs_of_each_rail = 1;  ///< queue pairs that it wants; the larger wish counts
  friend bool operator==(const Offer&, const Offer&) = default;
};

/// A queue pair that its peer may connect to.
struct OpenPath {
  std::uint16_t path = 0;
  std::uint32_t generation = 0;
  std::uint32_t queue_pair = 0;    ///< 24 bits
  std::uint32_t first_packet = 0;  ///< 24 bits
  std::uint32_t mtu = 0;
  Gid gid{};
  std::uint16_t lid = 0;
  friend bool operator==(const OpenPath&, const OpenPath&) = default;
};

/// The sender of this has connected its end: the peer may send.
struct ReadyPath {
  std::uint16_t path = 0;
  std::uint32_t generation = 0;
  friend bool operator==(const ReadyPath&, const ReadyPath&) = default;
};

/// The sender's end is over: nothing more arrives there. What had arrived is counted.
struct ClosedPath {
  std::uint16_t path = 0;
  std::uint32_t generation = 0;
  std::uint64_t stream_bytes = 0;  ///< of the connection, by all paths
  std::uint64_t puts = 0;          ///< by this generation of this path
  friend bool operator==(const ClosedPath&, const ClosedPath&) = default;
};

/// The sender of this waits no longer for puts into a target: none may be written again.
struct RevokeTarget {
  std::uint16_t number = 0;
  friend bool operator==(const RevokeTarget&, const RevokeTarget&) = default;
};

using ControlMessage = std::variant<Offer, OpenPath, ReadyPath, ClosedPath, RevokeTarget>;

Blob encode(const ControlMessage& message);

/// Takes the first message off `bytes`, and says how many bytes that were; nothing if it has not
/// come in full. kPeerFailed says what is wrong with it.
struct DecodedControl {
  ControlMessage message;
  std::size_t bytes = 0;
};
Result<std::optional<DecodedControl>> decode_control(std::span<const std::byte> bytes);

}  // namespace tutti::verbs
