// The frames that a member and its hub exchange after the handshake. Pure: bytes in, values out.
//
// A frame is a 16-byte header (body bytes u32, type u8, zero u24, sequence u64; little-endian) and
// a body. Bytes may be hostile; decode_* accepts only what is well formed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/base/blob.hpp"
#include "src/wire/crypto.hpp"
#include "src/wire/net.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

inline constexpr std::size_t kMaxBlobBytes = std::size_t{16} << 20;
inline constexpr std::int32_t kMaxGroupSize = 65'536;

/// Largest body of the frame that carries a whole all-gather.
constexpr std::size_t max_gathered(std::int32_t size) {
  constexpr std::size_t kMost = std::size_t{1} << 30;
  const std::size_t all = static_cast<std::size_t>(size) * (kMaxBlobBytes + sizeof(std::uint32_t));
  return all < kMost ? all : kMost;
}

enum class FrameType : std::uint8_t {
  // member to hub
  kJoin = 1,      ///< JoinBody
  kGather = 2,    ///< sequence; body: the blob
  kWho = 3,       ///< who is missing?
  kGoodbye = 4,   ///< leaves
  kAnnounce = 5,  ///< Error
  // both ways
  kHeartbeat = 6,  ///< sequence 1: the hub's first, more come from now on
  // hub to member
  kWelcome = 7,        ///< the group is complete: vector<MemberInfo>
  kReject = 8,         ///< Error: you cannot join
  kGathered = 9,       ///< sequence; vector<Blob>
  kGatherFailed = 10,  ///< sequence; Error
  kCame = 11,          ///< answer to kWho: one byte a rank
  kLeft = 12,          ///< the last rank of the hub's process has left: its end is no failure
  kFailure = 13,       ///< Error: a member died or fell silent
  kNotice = 14,        ///< sequence: the rank that announced; Error
  // at the door of a member, both ways
  kPulse = 15,  ///< does the group live here? It does; or a kNotice instead
  // who waits for whom
  kWaits = 16,       ///< member to hub. sequence: its number; WaitingCall, or nothing: no longer
  kAsk = 17,         ///< hub to member. sequence: the question's number: does it still wait so?
  kStill = 18,       ///< member to hub. sequence: the question's; body: the number of what it said
  kStandstill = 19,  ///< hub to member. Error: ranks wait for each other
};

inline constexpr std::size_t kFrameHeaderBytes = 16;

struct FrameHeader {
  std::uint32_t body_bytes = 0;
  FrameType type = FrameType::kHeartbeat;
  std::uint64_t sequence = 0;
};

/// `body` points into the receiver's buffer and is valid during the call that it is passed to.
struct Frame {
  FrameType type = FrameType::kHeartbeat;
  std::uint64_t sequence = 0;
  std::span<const std::byte> body;
};

/// A frame ready to be sent, to one peer or to many.
using FrameBytes = std::shared_ptr<const Blob>;
FrameBytes encode_frame(FrameType type, std::uint64_t sequence,
                        std::span<const std::byte> body = {});

/// From 16 bytes; nothing when the type is unknown or a zero is not zero.
std::optional<FrameHeader> decode_header(std::span<const std::byte> bytes);

/// A rank asks to join.
struct JoinBody {
  std::uint64_t group = 0;
  Rank rank = 0;
  std::int32_t size = 0;
  Digest members{};        ///< proves key and member list of a subgroup; zeros for the job itself
  SocketAddress listener;  ///< where this rank's process is to be found
};
Blob encode(const JoinBody& join);
std::optional<JoinBody> decode_join(std::span<const std::byte> body);

/// What every member knows of every other.
struct MemberInfo {
  std::uint64_t token = 0;  ///< of its process
  SocketAddress listener;
};
Blob encode(std::span<const MemberInfo> members);
std::optional<std::vector<MemberInfo>> decode_members(std::span<const std::byte> body);

Blob encode(const Error& error);
std::optional<Error> decode_error(std::span<const std::byte> body);

Blob encode(std::span<const Blob> blobs);
/// Exactly `count` blobs.
std::optional<std::vector<Blob>> decode_blobs(std::span<const std::byte> body, std::size_t count);

}  // namespace tutti
