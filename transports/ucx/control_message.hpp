// What two processes tell each other on the authenticated socket beside their UCX endpoints, and
// the address by which a process is found.
//
// A message is a header (type u8, zero u8, bytes u16) and a body, little-endian. All of it comes
// from a peer and is validated here; nothing else reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "src/base/blob.hpp"
#include "src/wire/net.hpp"
#include "tutti/error.hpp"

namespace tutti::ucx {

inline constexpr std::uint16_t kControlVersion = 1;
inline constexpr std::size_t kMostControlBytes = 32 << 10;

/// The sender's end of a generation is open, and those before it are over: what came by them has
/// come.
struct Hello {
  std::uint32_t generation = 0;   ///< from 1
  bool notices_failures = false;  ///< Context::notices_failures()
  std::uint64_t cookie = 0;       ///< of every message to the sender in this generation
  std::uint64_t ring_bytes = 0;   ///< room for the stream
  std::uint64_t arrived = 0;      ///< bytes of the stream in all
  std::uint64_t read = 0;         ///< as far as the sender has read it
  Blob worker{};                  ///< UCX's address
  friend bool operator==(const Hello&, const Hello&) = default;
};

/// Messages of this generation reach the sender, and leave it without further help of the peer.
struct Ready {
  std::uint32_t generation = 0;
  friend bool operator==(const Ready&, const Ready&) = default;
};

/// The sender closes the connection. Its stream has so many bytes, which have all left.
struct Bye {
  std::uint64_t written = 0;
  friend bool operator==(const Bye&, const Bye&) = default;
};

using ControlMessage = std::variant<Hello, Ready, Bye>;

Blob encode(const ControlMessage& message);

/// Takes the first message off `bytes`, and says how many bytes that were; nothing if it has not
/// come in full. kPeerFailed says what is wrong with it.
struct DecodedControl {
  ControlMessage message;
  std::size_t bytes = 0;
};
Result<std::optional<DecodedControl>> decode_control(std::span<const std::byte> bytes);

/// Where a process listens, and the names of its transports.
struct UcxAddress {
  SocketAddress control;
  std::vector<std::string> transports;
};
/// At most kMostNames of them travel.
Blob encode(const UcxAddress& address);
inline constexpr std::size_t kMostNames = 32;
/// Accepts hostile bytes. kInvalidArgument says what is wrong.
Result<UcxAddress> decode_address(std::span<const std::byte> bytes);

}  // namespace tutti::ucx
