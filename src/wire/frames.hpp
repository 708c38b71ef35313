// Frames: what the message engine says to its peer over a byte link.
//
// A frame is a header of 88 bytes, little-endian, and `payload` bytes after it:
//   0 magic u32    4 version u8   5 type u8     6 lane u16     8 communicator u64
//  16 source i32  20 destination i32           24 message u64
//  32 sequence u64                             40 collective u8, type u8, op u8, reason u8
//  44 root i32    48 count u64   56 blocks u64 64 bytes u64   72 offset u64
//  80 payload u32 84 check u32
// `check` covers the other 84 bytes, so a stream that lost its place, or a flipped bit where TCP
// does not look (veth pairs), is noticed at the next header.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "src/transport/transport.hpp"

namespace tutti {

inline constexpr std::uint32_t kFrameMagic = 0x49545554;  // "TUTI"
inline constexpr std::uint8_t kFrameVersion = 4;
inline constexpr std::size_t kHeaderBytes = 88;

/// Messages up to this size travel with their announcement.
inline constexpr std::size_t kEagerLimit = 64 << 10;
/// A message that is not eager travels in DATA frames of so many bytes, the last of fewer; each may
/// take another of the connection's links.
inline constexpr std::size_t kChunkBytes = 128 << 10;
/// Announced messages of one stream that the receiver has not matched yet.
inline constexpr std::uint32_t kStreamWindow = 32;
/// An eager message takes one credit of its connection for each so many bytes, and at least one.
inline constexpr std::size_t kCreditBytes = 16 << 10;
/// Credits of one connection: with kCreditBytes they bound what a receiver that posts nothing has
/// to keep.
inline constexpr std::uint32_t kConnectionCredits = 256;
/// What an eager message of so many bytes takes.
constexpr std::uint32_t credits_of(std::size_t bytes) {
  return bytes <= kCreditBytes
             ? 1
             : static_cast<std::uint32_t>((bytes + kCreditBytes - 1) / kCreditBytes);
}

enum class FrameType : std::uint8_t {
  kEager = 1,    ///< announces a message and carries it
  kRequest = 2,  ///< announces a message of `bytes`; its data follows once it is cleared
  kClear = 3,    ///< a receive for `message` is posted: send its data, announced or not
  kData = 4,     ///< `payload` bytes of `message` at `offset`
  kCredit = 5,   ///< `offset` more eager messages of the stream, which took `bytes` credits, have
                 ///< left the receiver's memory
  kBreak = 6,  ///< the stream is over, see BreakReason; payload: the message that broke it, if any
  kGoodbye = 7,  ///< nothing more will come on this link, on purpose
};

enum class BreakReason : std::uint8_t {
  kNone = 0,
  kSendCancelled = 1,  ///< by the source
  kRecvCancelled = 2,  ///< by the destination
  kMismatch = 3,       ///< found by the destination
};

/// Numbers of messages that are further apart belong to two lives of a stream, which its sender has
/// forgotten in between.
inline constexpr std::uint64_t kMessageEpoch = std::uint64_t{1} << 32;

/// Streams that a peer may make this side remember.
inline constexpr std::size_t kMaxPeerStreams = 1 << 16;

/// A header as a value.
struct Frame {
  FrameType type = FrameType::kGoodbye;
  BreakReason reason = BreakReason::kNone;
  StreamId stream{};
  std::uint64_t message = 0;  ///< the sender's number of the message, see MessageSender
  MessageTag tag{};
  std::uint64_t bytes = 0;  ///< of the whole message
  std::uint64_t offset = 0;
  std::uint32_t payload = 0;  ///< bytes that follow this header
};

using FrameHeader = std::array<std::byte, kHeaderBytes>;

FrameHeader encode(const Frame& frame);

/// Validates everything that can be judged without knowing the connection's state: magic, version,
/// check, ranges of enumerations, sizes within the limits above and consistent with the type.
Result<Frame> decode(std::span<const std::byte, kHeaderBytes> header);

}  // namespace tutti
