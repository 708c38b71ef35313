// What two processes tell each other on the authenticated socket beside their plugin's connections,
// the words before the data of each message, and the address by which a process is found.
//
// A control message is a header (type u8, zero u8, bytes u16) and a body, little-endian. All of it
// comes from a peer and is validated here; nothing else reads it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "src/base/blob.hpp"
#include "src/plugin/handle.hpp"
#include "src/wire/net.hpp"
#include "tutti/error.hpp"

namespace tutti::nccl_net {

inline constexpr std::uint16_t kControlVersion = 1;

/// How the sender is reached, and what it takes.
struct Hello {
  std::uint64_t cookie = 0;      ///< of every message to the sender
  std::uint32_t slot_bytes = 0;  ///< of a message at most, with its words
  std::uint32_t data_slots = 0;  ///< receives for messages with data
  plugin::Handle listener{};
  friend bool operator==(const Hello&, const Hello&) = default;
};

/// Both connections of the sender are there, and its receives are posted.
struct Ready {
  friend bool operator==(const Ready&, const Ready&) = default;
};

/// The sender closes the connection. It has sent so many messages with data, and sends no more.
struct Bye {
  std::uint64_t data_messages = 0;
  friend bool operator==(const Bye&, const Bye&) = default;
};

/// The sender has posted so many receives in all, and posts no more. Who gets this fills them up
/// with messages that say kEnd, since a receive cannot be taken back.
struct Posted {
  std::uint64_t receives = 0;
  friend bool operator==(const Posted&, const Posted&) = default;
};

using ControlMessage = std::variant<Hello, Ready, Bye, Posted>;

Blob encode(const ControlMessage& message);

/// Takes the first message off `bytes`, and says how many bytes that were; nothing if it has not
/// come in full. kPeerFailed says what is wrong with it.
struct DecodedControl {
  ControlMessage message;
  std::size_t bytes = 0;
};
Result<std::optional<DecodedControl>> decode_control(std::span<const std::byte> bytes);

/// What stands before the data of a message.
struct Words {
  enum class Kind : std::uint32_t { kData = 1, kConsumed = 2, kEnd = 3 };
  std::uint64_t cookie = 0;    ///< that the receiver has told
  std::uint64_t consumed = 0;  ///< messages with data that the sender has taken and made room for
  Kind kind = Kind::kData;
  friend bool operator==(const Words&, const Words&) = default;
};
inline constexpr std::size_t kWordsBytes = 24;

void encode(const Words& words, std::span<std::byte, kWordsBytes> out);
/// `message`: as it arrived. kPeerFailed says what is wrong with it. Only data may follow the
/// words.
Result<Words> decode_words(std::span<const std::byte> message, std::uint64_t cookie);

/// Where a process listens, and by which plugin it is reached.
struct NcclNetAddress {
  SocketAddress control;
  std::string plugin;  ///< its name
};
Blob encode(const NcclNetAddress& address);
/// Accepts hostile bytes. kInvalidArgument says what is wrong.
Result<NcclNetAddress> decode_address(std::span<const std::byte> bytes);

}  // namespace tutti::nccl_net
