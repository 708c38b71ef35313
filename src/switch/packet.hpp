// Packets of the data plane: what workers and a switch that adds for them send each other by UDP.
//
// A job opens a session with a switch. Its workers cut a vector into chunks of up to 1408 bytes.
// Each sends its values of a chunk as one packet, a contribution. The switch adds them, and sends
// the sum to all, the result. This is SwitchML (Sapio and others: Scaling Distributed Machine
// Learning with In-Network Aggregation, NSDI'21) with one difference. There, a packet names the
// place in the switch's memory, and the network must not delay a packet so long that the place is
// used again. Here, it names the chunk by a number that never comes twice in a session. So any
// order, loss and repetition is harmless (tests/switch/model_test.cpp shows both).
//
// A packet is a header of 48 bytes, little-endian, then values, then a MAC (seal.hpp):
//    0 magic u32    4 version u8   5 kind u8   6 sender u8   7 lanes u8
//    8 session u64 16 counter u64 24 chunk u64
//   32 count u16   34 exponent i16 36 workers u32
//   40 flags u8    41 reason u8    42 level u8  43 zero u8  44 call u32
//   48 `count` values of 1, 2, 4 or 8 bytes (width_of), or none
//   then 16 bytes of MAC
// A full packet has 1472 bytes: what a frame of 1500 bytes leaves beside the headers of IPv4 and
// UDP. With IPv6, which has 20 bytes less, the link needs an MTU of 1520.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tutti/types.hpp"

namespace tutti::in_network {

inline constexpr std::uint32_t kPacketMagic = 0x53545554;  // "TUTS"
inline constexpr std::uint8_t kPacketVersion = 2;
inline constexpr std::size_t kPacketHeaderBytes = 48;
inline constexpr std::size_t kMacBytes = 16;
/// Of the values of a full chunk.
inline constexpr std::size_t kChunkBytes = 1408;
inline constexpr std::size_t kLeastPacketBytes = kPacketHeaderBytes + kMacBytes;
inline constexpr std::size_t kMostPacketBytes = kLeastPacketBytes + kChunkBytes;
static_assert(kMostPacketBytes == 1472);

/// Workers of one switch: the bits of a word.
inline constexpr unsigned kMostWorkers = 32;
/// The sender of what a switch sends to its workers.
inline constexpr std::uint8_t kTheSwitch = 0xff;

enum class PacketKind : std::uint8_t {
  kContribution = 1,  ///< from a worker: takes part in a chunk, with values or without
  kResult = 2,        ///< from the switch: all workers took part
  /// From the switch, as the answer to a repeated contribution: it lives, and waits for `workers`.
  kWaiting = 3,
  kRefusal = 4,  ///< from the switch: this chunk or session has no result, see `reason`
};

/// What the values of a chunk are and how they combine: sum, min and max of each integer type, in
/// the order of DataType, and what has a place behind them. Sums wrap. All workers must agree.
/// Floats travel as signed integers (exponents.hpp).
enum class Lanes : std::uint8_t {
  kInt8Sum,
  kInt8Min,
  kInt8Max,
  kUint8Sum,
  kUint8Min,
  kUint8Max,
  kInt32Sum,
  kInt32Min,
  kInt32Max,
  kUint32Sum,
  kUint32Min,
  kUint32Max,
  kInt64Sum,
  kInt64Min,
  kInt64Max,
  kUint64Sum,
  kUint64Min,
  kUint64Max,
  kInt16Sum,
  kWords,  ///< any 4 bytes, of at most one worker: moved, not combined
};
inline constexpr int kLanes = 20;

/// The first of the three lanes of an integer type.
constexpr Lanes sum_of(DataType integer) {
  return static_cast<Lanes>(3 * static_cast<int>(integer));
}
static_assert(sum_of(DataType::kUint64) == Lanes::kUint64Sum);

/// Bytes of a value.
constexpr std::size_t width_of(Lanes lanes) {
  if (lanes == Lanes::kInt16Sum) return 2;
  if (lanes == Lanes::kWords) return 4;
  return size_of(static_cast<DataType>(static_cast<int>(lanes) / 3));
}
/// Most values of a chunk.
constexpr std::size_t most_values(Lanes lanes) { return kChunkBytes / width_of(lanes); }
std::string_view name_of(Lanes lanes);

/// Why a switch refuses.
enum class Refusal : std::uint8_t {
  kNone = 0,
  kUnknownSession = 1,  ///< it restarted, or the session was closed
  kLanesDiffer = 2,     ///< workers of a chunk name different types or operators
  kCountsDiffer = 3,    ///< ... different numbers of elements
  kCallsDiffer = 4,     ///< ... different calls
  kTwoSenders = 5,      ///< kWords: two workers sent values
  kOutOfTurn = 6,       ///< the worker did not wait for the result `slots` chunks before
};
inline constexpr int kRefusals = 7;
/// A sentence without its end: "workers use different types or operators".
std::string_view meaning_of(Refusal refusal);

/// A packet as a value. `values` belongs to whoever made the packet.
struct Packet {
  PacketKind kind = PacketKind::kContribution;
  std::uint8_t sender = kTheSwitch;  ///< a worker, or kTheSwitch
  Lanes lanes = Lanes::kInt32Sum;
  std::uint64_t session = 0;
  std::uint64_t counter = 0;  ///< of the sender's packets in the session: none comes twice
  std::uint64_t chunk = 0;    ///< counted from the session's begin
  std::uint16_t count = 0;    ///< values of the chunk, whether they are here or not
  /// Exponent code (exponents.hpp) of the chunk that will use this one's slot next: of the sender's
  /// values in a contribution, the greatest of all workers in a result.
  std::int16_t exponent = 0;
  /// kWaiting: a bit for each worker that is missing. kResult: the worker to whose contribution
  /// this is the answer, because it was the last; 0 if none was.
  std::uint32_t workers = 0;
  bool wants = false;  ///< kContribution: send me the values of the result
  /// kResult: the chunk has values, but they are left out, for workers that do not want them. All
  /// workers share a key, so a packet may reach one that it was not meant for.
  bool left_out = false;
  Refusal reason = Refusal::kNone;
  /// kWaiting: 0 if `workers` are those of the receiver's switch, 1 if they are those of the switch
  /// above it, so switches, and so on.
  std::uint8_t level = 0;
  std::uint32_t call = 0;  ///< hash of the call (operation.hpp); all workers must agree
  /// `count` values, little-endian, at any alignment; or empty.
  std::span<const std::byte> values = {};
};

/// What is wrong with the bytes of a packet.
enum class Flaw : std::uint8_t {
  kNone,
  kLength,   ///< too short, too long, or not what the header says
  kMagic,    ///< not ours
  kVersion,  ///< of another version
  kRange,    ///< a field has a value that none of its kind has
};

/// Reads a packet and checks all that does not depend on the session. `values` then points into
/// `bytes`. The MAC is not checked: see open(). `out` is meaningful for Flaw::kNone only.
[[nodiscard]] Flaw parse(std::span<const std::byte> bytes, Packet& out);

using PacketBytes = std::array<std::byte, kMostPacketBytes>;
/// Writes header and values of `packet`, which must be one that parse() accepts, and returns the
/// packet with room for its MAC. `values` may lie at their place in `out` already.
std::span<std::byte> build(const Packet& packet, PacketBytes& out);

}  // namespace tutti::in_network
