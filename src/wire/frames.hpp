// Frames: the unit of the message engine's protocol over a byte link.
//
// A frame is a header of 88 bytes, little-endian, followed by `payload` bytes:
//    0 magic u32    4 version u8   5 type u8     6 lane u16     8 communicator u64
//   16 source i32  20 destination i32           24 message u64
//   32 sequence u64                             40 collective u8, type u8, op u8, reason u8
//   44 root i32    48 count u64   56 blocks u32, compression u32
//   64 bytes u64   72 offset u64
//   80 payload u32 84 check u32
// `check` covers the other 84 bytes. It detects a reader that lost its place in the stream, and
// bits flipped where TCP computes no checksum (veth pairs).
//
// Most small messages are like the one before. So an eager frame whose stream, call and length are
// those of the eager frame before it on its link, and whose message number is the next one, has a
// brief header instead, of 8 bytes:
//    0 magic u32, one of two: the sequence number is the same, or the next one
//    4 the low half of the message number, u32
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "src/transport/transport.hpp"
#include "src/wire/put_link.hpp"

namespace tutti {

inline constexpr std::uint32_t kFrameMagic = 0x49545554;  // "TUTI"
inline constexpr std::uint8_t kFrameVersion = 8;
inline constexpr std::size_t kHeaderBytes = 88;
inline constexpr std::size_t kBriefHeaderBytes = 8;

/// Largest eager message. Eager messages travel together with their announcement.
inline constexpr std::size_t kEagerLimit = 64 << 10;
/// The same on links that can put: there the wait for a clear-to-send costs less than two copies.
inline constexpr std::size_t kEagerLimitBesidePuts = 16 << 10;
/// A larger message travels in DATA frames of this size; the last one may be shorter. Each frame
/// may take any of the connection's links.
inline constexpr std::size_t kChunkBytes = 128 << 10;
/// Most announced messages per stream that the receiver has not matched yet.
inline constexpr std::uint32_t kStreamWindow = 64;
/// Most messages per stream that are cleared before they are announced.
inline constexpr std::uint32_t kClearedEarly = 32;
/// An eager message takes one of its connection's credits per this many bytes, and at least one.
inline constexpr std::size_t kCreditBytes = 16 << 10;
/// Credits of one connection. With kCreditBytes they bound the memory of a receiver that posts
/// nothing.
inline constexpr std::uint32_t kConnectionCredits = 256;
/// Credits that an eager message of `bytes` takes.
constexpr std::uint32_t credits_of(std::size_t bytes) {
  return bytes <= kCreditBytes
             ? 1
             : static_cast<std::uint32_t>((bytes + kCreditBytes - 1) / kCreditBytes);
}

enum class FrameType : std::uint8_t {
  kEager = 1,        ///< announces a message and carries it
  kReadyToSend = 2,  ///< RTS: announces a message of `bytes`; the sender waits for CTS
  /// CTS: a receive for `message` is posted; send its data, announced or not. Payload: a key of
  /// PutLink, if its memory may be written straight.
  kClearToSend = 3,
  kData = 4,     ///< `payload` bytes of `message` at `offset`
  kCredit = 5,   ///< gives back `bytes` credits: `offset` eager messages left the receiver's memory
  kBreak = 6,    ///< the stream is over, see BreakReason; payload: the mismatched frame, if any
  kGoodbye = 7,  ///< deliberate end: nothing more comes on this link
};

enum class BreakReason : std::uint8_t {
  kNone = 0,
  kSendCancelled = 1,  ///< by the source
  kRecvCancelled = 2,  ///< by the destination
  kMismatch = 3,       ///< found by the destination
};

/// Two message numbers further apart than this belong to two lives of a stream: the sender has
/// forgotten the stream in between.
inline constexpr std::uint64_t kMessageEpoch = std::uint64_t{1} << 32;

/// Most streams that a peer can make this side keep.
inline constexpr std::size_t kMaxPeerStreams = 1 << 16;

/// A header as a value.
struct Frame {
  FrameType type = FrameType::kGoodbye;
  BreakReason reason = BreakReason::kNone;
  StreamId stream{};
  std::uint64_t message = 0;  ///< number that the sender gave the message, see MessageSender
  MessageTag tag{};
  std::uint64_t bytes = 0;  ///< of the whole message
  std::uint64_t offset = 0;
  std::uint32_t payload = 0;  ///< bytes that follow this header
};

using FrameHeader = std::array<std::byte, kHeaderBytes>;

FrameHeader encode(const Frame& frame);

/// Validates all that does not depend on the connection's state: magic, version, check, ranges of
/// enumerations, and sizes, which must respect the limits above and fit the type.
Result<Frame> decode(std::span<const std::byte, kHeaderBytes> header);

using BriefHeader = std::array<std::byte, kBriefHeaderBytes>;

/// The header of an eager frame that comes after `before`, the eager frame before it on its link;
/// nothing if it needs the long one.
std::optional<BriefHeader> encode_brief(const Frame& frame, const Frame& before);

/// Bytes of the header that begins so; kPeerFailed if none does.
Result<std::size_t> header_length(std::span<const std::byte, kBriefHeaderBytes> begin);

/// Turns `frame`, the eager frame before it on its link, into the one of this header. kPeerFailed
/// if it is not the next one.
Status decode_brief(std::span<const std::byte, kBriefHeaderBytes> header, Frame& frame);

}  // namespace tutti
