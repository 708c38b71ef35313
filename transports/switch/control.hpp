// What a worker and a switch say to each other by TCP, after the handshake (src/wire/handshake.hpp)
// has shown that both hold the switch's key: the worker joins a session, and is welcome or not.
// Then the connection stays open, silent, for as long as both live.
//
//   worker -> switch   Join
//   switch -> worker   Welcome, once all workers of the session have joined
//
// In a tree, the workers of each leaf join there. Then the leaf joins a session of the switch
// above, in the same way, as a worker; its own workers are welcome once it is.
//
// A message is its length as u32, then its bytes. The packets' key is masked by a hash under the
// switch's key, since later bytes of the stream travel in clear.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/base/blob.hpp"
#include "src/switch/seal.hpp"
#include "src/wire/crypto.hpp"
#include "src/wire/handshake.hpp"
#include "tutti/error.hpp"

namespace tutti::in_network {

inline constexpr std::uint16_t kControlVersion = 2;
inline constexpr std::size_t kMostControlBytes = 1024;
/// HandshakeOptions::remedy of both sides.
inline constexpr std::string_view kOneKey =
    "give the switches and all ranks one key, in TUTTI_SWITCH_KEY or with --key-file";
/// Identity::group of both sides.
inline constexpr std::uint64_t kSwitchGroup = 0x5455545453574954;

/// Names a job's session before it has an id; only its workers know it.
using JobToken = std::array<std::byte, 32>;

struct Join {
  JobToken job{};
  std::uint32_t workers = 0;  ///< of the session
  std::uint32_t worker = 0;   ///< which of them this is
  std::uint32_t slots = 0;    ///< wanted
  /// Switches that add for the job's workers, each for some of them: more than one are leaves of a
  /// tree.
  std::uint32_t leaves = 1;
  std::uint32_t leaf = 0;  ///< which of them this one is
};

struct Welcome {
  std::string refusal = {};  ///< why there is no session; "": there is one
  std::uint64_t session = 0;
  PacketKey key{};
  std::uint32_t slots = 0;
  std::uint16_t port = 0;  ///< of the data plane, UDP
};

/// With the length in front.
Blob encode(const Join& join);
Blob encode(const Welcome& welcome, const Key& switch_key);
/// Without it. Accept any bytes.
Result<Join> decode_join(std::span<const std::byte> bytes);
Result<Welcome> decode_welcome(std::span<const std::byte> bytes, const Key& switch_key);

/// The first message of a stream's bytes: nothing while it is not complete, an error if it is too
/// long.
Result<std::optional<std::span<const std::byte>>> first_message(std::span<const std::byte> bytes);

}  // namespace tutti::in_network
