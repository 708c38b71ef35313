// What a rank keeps in shared memory for its peers on the same host to read.
//
// Every field has one writer, its owner, except `sleepers` and departure marks. Peers treat what
// they read as hostile: data is never interpreted, and the few offsets are validated against the
// mapping before use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/transport/transport.hpp"

namespace tutti::exec {

/// Processors fetch adjacent cache lines in pairs, so words with different writers are this far
/// apart.
inline constexpr std::size_t kLine = 128;

/// To enter a call, a rank fills entry `sequence % kEntries` and stores `sequence` in it last. It
/// refills an entry only after every peer that reads it has entered a later call than the one
/// announced there. So a rank that waits for no peer (the root of a small broadcast) can run this
/// far ahead.
inline constexpr std::uint64_t kEntries = 64;

/// Payload up to kInlineBytes lies in the entry's own first line, up to kNoteBytes in the entry's
/// note, and up to kPacketBytes in a packet, to which the entry points. Packets are overwritten by
/// the same rule.
inline constexpr std::size_t kInlineBytes = 48;
inline constexpr std::size_t kNoteBytes = 9 * kLine;  // odd, so notes spread over the cache's sets
inline constexpr std::size_t kPacketBytes = 32 * 1024;

/// Offsets in shared words. 0 means none yet; offset 0 is valid, so announced offsets carry a mark.
constexpr std::uint64_t announce(std::uint64_t offset) { return offset | 1; }
constexpr std::uint64_t announced_offset(std::uint64_t word) { return word & ~std::uint64_t{1}; }

/// Distance from a line at which slots begin: the same as that of the caller's buffer (16 bytes
/// with glibc's malloc), so copies between them load and store whole lines. A multiple of 16, less
/// than the lines of any processor.
inline std::size_t lead_of(const std::byte* data) {
  return reinterpret_cast<std::uintptr_t>(data) & 0x30;
}
constexpr std::size_t lead_of(std::uint64_t offset) { return offset & 0x30; }

struct alignas(kLine) Entry {
  std::atomic<std::uint64_t> sequence;
  std::uint64_t call_hash;
  std::byte payload[kInlineBytes];
  // Second line, read only if the hashes differ.
  CallSignature call;
};
static_assert(sizeof(Entry) == kLine);
static_assert(offsetof(Entry, call) == 64);

/// In an entry's payload with ProgramProtocol::kDirect: where the rank's buffers lie. Offsets are
/// in its process's heap, which peers map; 0: elsewhere.
struct BufferPlaces {
  std::uint64_t input_address = 0;  ///< in the owner's process
  std::uint64_t input_offset_and_1 = 0;
  std::uint64_t output_offset_and_1 = 0;
  std::uint64_t mapped_by_all = 0;  ///< 1: every rank maps both
};
static_assert(sizeof(BufferPlaces) <= kInlineBytes);

/// In an entry's payload, if the rank's input lies in a packet.
struct PacketPlace {
  std::uint64_t offset = 0;  ///< in the owner's heap
};
static_assert(sizeof(PacketPlace) <= kInlineBytes);

struct alignas(kLine) Progress {
  std::atomic<std::uint64_t> progress;
  std::atomic<std::uint32_t> sleepers;  ///< peers asleep on a word of this rank
  /// Where the slots of even and of odd staged calls lie: announce()d offsets in the owner's heap,
  /// `lead` bytes behind a line. Stored before the owner's first progress in a call, and after all
  /// mapped peers have left the call before last.
  std::atomic<std::uint64_t> staging_offset[2];
  std::atomic<std::uint64_t> mail_offset;  ///< announce()d, in the owner's heap
  std::atomic<std::uint32_t> left;         ///< not 0: the owner changes nothing here any more
  std::atomic<std::uint32_t> gave_up;      ///< not 0: the owner's communicator failed
  /// The call in which the owner is touching buffers of peers right now; 0: none. The owner sets
  /// this, then reads the peer's `gave_up`. A peer that gave up reads this before it returns the
  /// buffers to its caller.
  std::atomic<std::uint64_t> touching;
  /// How long loading took the owner, by the stores of those it read from (store_choice.hpp): the
  /// low bits of the call's hash, and two times. See load_times.hpp.
  std::atomic<std::uint64_t> load_times;
};
static_assert(sizeof(Progress) == kLine);

/// What peers show about a rank's call that does not match theirs: source location and arguments.
/// Written only with TUTTI_CHECK=1. See caption.hpp.
struct alignas(kLine) Caption {
  char text[512];
};

/// A call that a rank enqueued for its GPU. No rank waits for it: see announcements.hpp.
struct alignas(kLine) Announced {
  std::atomic<std::uint64_t> number;  ///< from 1; 0: none, or being written
  std::atomic<std::uint64_t> call[sizeof(CallSignature) / sizeof(std::uint64_t)];
};
static_assert(sizeof(Announced) == kLine);
static_assert(sizeof(CallSignature) % sizeof(std::uint64_t) == 0);
inline constexpr std::size_t kAnnounced = 64;

struct RankBlock {
  std::uint64_t nonce;  ///< shows whether a read at this block's address reached this block
  Progress progress;
  Entry entries[kEntries];
  alignas(kLine) std::byte notes[kEntries][kNoteBytes];
  Caption captions[kEntries];
  Announced announced[kAnnounced];
};

/// A block is followed by one mark per rank. A rank sets its mark, once and for good, when it will
/// never touch the memory of the block's owner again.
constexpr std::size_t block_bytes(std::int32_t ranks) {
  return sizeof(RankBlock) + static_cast<std::size_t>(ranks);
}
inline std::atomic<std::uint8_t>& departure_mark(RankBlock& block, Rank rank) {
  static_assert(std::atomic<std::uint8_t>::is_always_lock_free);
  return reinterpret_cast<std::atomic<std::uint8_t>*>(&block + 1)[rank];
}

/// What holds an input that its owner published: a part of its block, or a packet.
enum class Holder : std::uint8_t { kEntry, kNote, kPacket };
constexpr Holder holder_of(std::size_t bytes) {
  if (bytes <= kInlineBytes) return Holder::kEntry;
  return bytes <= kNoteBytes ? Holder::kNote : Holder::kPacket;
}

/// Where a rank's block holds what it publishes in a call, unless that is in a packet. Value.
class PublishedAt {
 public:
  explicit PublishedAt(std::uint64_t call = 0)
      : offsets_{offsetof(RankBlock, entries) + (call % kEntries) * sizeof(Entry) +
                     offsetof(Entry, payload),
                 offsetof(RankBlock, notes) + (call % kEntries) * kNoteBytes} {}

  [[nodiscard]] std::byte* in(RankBlock& block, Holder holder) const {
    return reinterpret_cast<std::byte*>(&block) + offsets_[static_cast<std::size_t>(holder)];
  }

 private:
  std::size_t offsets_[2];
};

/// Point-to-point, sender's side: one line per destination rank.
struct alignas(kLine) Outbox {
  std::atomic<std::uint64_t> published;     ///< slices made available since the start
  std::atomic<std::uint64_t> slots_offset;  ///< announce()d, in the owner's heap
};
/// Receiver's side: one line per source rank.
struct alignas(kLine) Inbox {
  std::atomic<std::uint64_t> consumed;  ///< slices taken since the start
};
/// Precedes the data of each slot.
struct alignas(kLine) SlotHeader {
  std::uint64_t message;  ///< number of the message between these two ranks, from 0
  CallSignature call;
};
inline constexpr std::uint64_t kMailSlots = 4;
inline constexpr std::size_t kMailSlotBytes = 64 * 1024;

}  // namespace tutti::exec
